//! A digits classifier behind HTTP. `POST /predict` takes `{"pixels": [64 numbers of 0 to 16]}`.

pub mod batch;
pub mod metrics;
pub mod model;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use batch::{Batcher, Refusal};
use metrics::Status;
use serde::{Deserialize, Serialize};

/// Longest body that is read: 64 numbers with all their digits are less.
const BODY: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    pixels: Vec<f32>,
}

#[derive(Serialize)]
struct Answer {
    digit: usize,
    probabilities: Vec<f32>,
}

/// The routes: a page to try it, predictions, health, metrics.
pub fn app(batcher: Batcher) -> Router {
    Router::new()
        .route("/", get(|| async { Html(include_str!("page.html")) }))
        .route("/health", get(|| async { "ok" }))
        .route("/metrics", get(|State(b): State<Batcher>| async move { b.metrics.text() }))
        .route("/predict", post(predict))
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(batcher)
}

async fn predict(State(batcher): State<Batcher>, body: Result<Json<Request>, JsonRejection>) -> Response {
    let response = match body {
        Err(rejection) => (rejection.status(), rejection.body_text()).into_response(),
        Ok(Json(request)) => answer(&batcher, request).await,
    };
    let status = Status { status: u32::from(response.status().as_u16()) };
    batcher.metrics.answers.get_or_create(&status).inc();
    response
}

async fn answer(batcher: &Batcher, request: Request) -> Response {
    let n = request.pixels.len();
    if n != model::PIXELS {
        return (StatusCode::BAD_REQUEST, format!("{n} pixels instead of {}", model::PIXELS)).into_response();
    }
    if !request.pixels.iter().all(|p| (0.0..=16.0).contains(p)) {
        return (StatusCode::BAD_REQUEST, "a pixel is not between 0 and 16").into_response();
    }
    // as the digits example scales them
    let pixels = request.pixels.iter().map(|p| p / 16.0).collect();
    match batcher.predict(pixels).await {
        Ok(probabilities) => {
            let best = probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            Json(Answer { digit: best.map_or(0, |(i, _)| i), probabilities }).into_response()
        }
        Err(Refusal::Full) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "too many requests wait")
                .into_response()
        }
        Err(Refusal::Ending) => (StatusCode::SERVICE_UNAVAILABLE, "the service ends").into_response(),
        Err(Refusal::Late) => (StatusCode::GATEWAY_TIMEOUT, "no answer in time").into_response(),
        Err(Refusal::Failed(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "the model failed").into_response(),
    }
}
