//! The service without a network: routes, refusals, batches, the end.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serve::batch::{Batcher, Limits, Refusal};
use serve::model::{Net, PIXELS};
use std::time::Duration;
use tower::ServiceExt;

fn start(limits: Limits) -> (Batcher, std::thread::JoinHandle<()>) {
    torch::manual_seed(0);
    Batcher::start(Net::load(None).unwrap(), limits)
}

async fn ask(batcher: &Batcher, kind: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::post("/predict").header(header::CONTENT_TYPE, kind).body(body.into()).unwrap();
    let response = serve::app(batcher.clone()).oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

fn picture() -> String {
    serde_json::json!({ "pixels": vec![8.0; PIXELS] }).to_string()
}

#[tokio::test]
async fn a_picture_has_a_digit() {
    let (batcher, worker) = start(Limits::default());
    let (status, body) = ask(&batcher, "application/json", picture()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    let p: Vec<f64> = serde_json::from_value(answer["probabilities"].clone()).unwrap();
    assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-5);
    assert!(answer["digit"].as_u64().unwrap() < 10);
    let request = Request::get("/metrics").body(Body::empty()).unwrap();
    let metrics = serve::app(batcher.clone()).oneshot(request).await.unwrap();
    let text = metrics.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("serve_answers_total{status=\"200\"} 1"));
    drop(batcher);
    worker.join().unwrap();
}

#[tokio::test]
async fn bad_bodies_are_the_clients_fault() {
    let (batcher, _worker) = start(Limits::default());
    let long = format!("{{\"pixels\": [{}]}}", "0,".repeat(20_000));
    let mut bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"{\"pixels\": []}".to_vec(),
        b"{\"pixels\": [1, 2]}".to_vec(),
        b"{\"pixels\": \"x\"}".to_vec(),
        b"{\"pixels\": [1e400]}".to_vec(),
        serde_json::json!({ "pixels": vec![17.0; PIXELS] }).to_string().into_bytes(),
        serde_json::json!({ "pixels": vec![-1.0; PIXELS] }).to_string().into_bytes(),
        serde_json::json!({ "pixels": vec![1.0; PIXELS + 1] }).to_string().into_bytes(),
        long.into_bytes(),
    ];
    // a good body with one byte changed: an answer or the client's fault, never ours
    let good = picture().into_bytes();
    for i in 0..good.len() {
        for byte in [0u8, b'"', b'9', b'}', 0xff] {
            let mut body = good.clone();
            body[i] = byte;
            bodies.push(body);
        }
    }
    for (i, body) in bodies.into_iter().enumerate() {
        let (status, text) = ask(&batcher, "application/json", body).await;
        assert!(status.is_client_error() || (i > 10 && status == StatusCode::OK), "{i}: {status} {text}");
    }
    let (status, _) = ask(&batcher, "text/plain", picture()).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn many_requests_share_calls() {
    let (batcher, queue) = Batcher::new(Limits { timeout: Duration::from_secs(60), ..Limits::default() });
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.predict(vec![0.5; PIXELS]).await })
        })
        .collect();
    // this runtime has one thread: when it comes back here, all 64 wait in the queue
    tokio::task::yield_now().await;
    torch::manual_seed(0);
    let net = Net::load(None).unwrap();
    let worker = std::thread::spawn(move || queue.answer(&net));
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().len(), 10);
    }
    let text = batcher.metrics.text();
    let calls = text.lines().find_map(|l| l.strip_prefix("serve_batch_rows_count ")).unwrap();
    assert_eq!(calls, "2", "calls of 32 rows for 64 requests");
    drop(batcher);
    worker.join().unwrap();
}

#[tokio::test]
async fn a_full_queue_and_late_answers_are_refused() {
    let limits = Limits { batch: 1, queue: 1, wait: Duration::ZERO, timeout: Duration::from_millis(10) };
    // nobody reads the queue yet, so the first waits in vain and stays in it, and the second finds no room
    let (batcher, queue) = Batcher::new(limits);
    assert_eq!(batcher.predict(vec![0.5; PIXELS]).await, Err(Refusal::Late));
    assert_eq!(batcher.predict(vec![0.5; PIXELS]).await, Err(Refusal::Full));
    // without a reader there is no service
    drop(queue);
    assert_eq!(batcher.predict(vec![0.5; PIXELS]).await, Err(Refusal::Ending));
}
