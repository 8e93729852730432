//! Windows and events of `torch.monitor`: what PyTorch 2.15 gives for the same samples.

use flambeau_test_support::alone;
use flambeau_utils::monitor::{Aggregation::*, *};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn windows_become_events() {
    alone!();
    let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
    let into = seen.clone();
    let handle = register_event_handler(move |e| into.lock().unwrap().push(e.clone()));
    let taken = || -> Vec<Vec<(String, Data)>> {
        let all: Vec<Event> = seen.lock().unwrap().drain(..).collect();
        assert!(all.iter().all(|e| e.name == "torch.monitor.Stat"));
        all.into_iter().map(|e| e.data.into_iter().collect()).collect()
    };
    let long = Duration::from_secs(1000);
    let s = Stat::new("s", &[SUM, COUNT, MEAN, MIN, MAX, VALUE], long);
    [2.0, -1.0, 4.5].into_iter().for_each(|v| s.add(v));
    assert_eq!((s.name(), s.count()), ("s", 3));
    assert!(s.get().values().all(|v| *v == 0.0) && s.get().len() == 5, "the window is still open");
    drop(s);
    let named =
        |v: &[(&str, f64)]| v.iter().map(|(n, v)| (n.to_string(), Data::Float(*v))).collect::<Vec<_>>();
    let mean = 5.5 / 3.0;
    assert_eq!(
        taken(),
        [named(&[("s.count", 3.0), ("s.max", 4.5), ("s.mean", mean), ("s.min", -1.0), ("s.sum", 5.5)])]
    );
    let w = Stat::new("w", &[SUM, COUNT], Duration::from_millis(50));
    w.add(1.0);
    w.add(3.0);
    std::thread::sleep(Duration::from_millis(80));
    w.add(10.0);
    assert_eq!((w.get()[&SUM], w.get()[&COUNT], w.count()), (4.0, 2.0, 1));
    drop(w);
    assert_eq!(
        taken(),
        [named(&[("w.count", 2.0), ("w.sum", 4.0)]), named(&[("w.count", 1.0), ("w.sum", 10.0)])]
    );
    let m = Stat::with_max_samples("m", &[SUM, MAX], long, 3);
    (1..=5).for_each(|v| m.add(f64::from(v)));
    drop(m);
    assert_eq!(taken(), [named(&[("m.max", 3.0), ("m.sum", 6.0)])]);
    let data =
        [("i".to_string(), 3i64.into()), ("b".to_string(), true.into()), ("s".to_string(), "a".into())];
    let e = Event { name: "e".into(), timestamp: std::time::SystemTime::now(), data: data.into() };
    log_event(&e);
    unregister_event_handler(handle);
    log_event(&e);
    assert_eq!(seen.lock().unwrap().len(), 1);
}
