//! `cargo run --release -p serve [-- digits.pt] [--port 8000]`: then open `http://localhost:8000`. Ctrl-C or SIGTERM ends it after
//! the requests that are under way. `RUST_LOG=info` shows spans of the batches.

use serve::batch::{Batcher, Limits};
use serve::model::Net;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let (mut weights, mut port) = (None, 8000u16);
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        match a.as_str() {
            "--port" => port = args.next().ok_or("--port needs a number")?.parse()?,
            flag if flag.starts_with("--") => return Err(format!("{flag}: only --port is known").into()),
            _ => weights = Some(a),
        }
    }
    let net = Net::load(weights.as_deref().map(Path::new))?;
    let (batcher, worker) = Batcher::start(net, Limits::default());
    // the first call touches memory for the first time: not a client's
    batcher.predict(vec![0.0; serve::model::PIXELS]).await.map_err(|e| format!("{e:?}"))?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, serve::app(batcher)).with_graceful_shutdown(end()).await?;
    // the last sender is gone with the routes; the worker answers what is left and ends
    worker.join().map_err(|_| "the model's thread panicked")?;
    println!("ended");
    Ok(())
}

/// Comes back when the service should end.
async fn end() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! { _ = interrupt => {}, () = terminate => {} }
}
