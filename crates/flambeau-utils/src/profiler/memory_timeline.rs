//! Bytes over time.

use super::recorder::Event;
use flambeau_core::{Error, Result, bail};
use std::fmt::Write as _;
use std::path::Path;

/// Columns of PyTorch's files: none, seven kinds of tensors, and what is of no known kind.
const COLUMNS: usize = 9;

/// Nanoseconds and bytes at each begin and end.
fn points(events: &[Event]) -> Vec<(u64, i64)> {
    let mut all: Vec<(u64, i64)> =
        events.iter().flat_map(|e| [(e.start, e.allocated[0]), (e.end, e.allocated[1])]).collect();
    all.sort_by_key(|p| p.0);
    all.dedup_by_key(|p| p.1);
    all
}
pub(super) fn write(events: &[Event], path: &Path) -> Result<()> {
    let all = points(events);
    let name = path.to_string_lossy();
    let text = if name.ends_with(".json") {
        let times: Vec<u64> = all.iter().map(|p| p.0 / 1000).collect();
        let sizes: Vec<[i64; COLUMNS]> = all
            .iter()
            .map(|p| {
                let mut row = [0; COLUMNS];
                row[COLUMNS - 1] = p.1;
                row
            })
            .collect();
        serde_json::json!([times, sizes]).to_string()
    } else if name.ends_with(".html") {
        picture(&all)
    } else {
        bail!(Missing, "a memory timeline as {name}: it is written as .html and .json");
    };
    std::fs::write(path, text).map_err(|e| Error::from(e).at_path(path))
}
fn picture(all: &[(u64, i64)]) -> String {
    let (width, height) = (1000.0, 400.0);
    let last = all.last().map_or(1, |p| p.0.max(1)) as f64;
    let most = all.iter().map(|p| p.1).max().unwrap_or(0).max(1) as f64;
    let mut line = String::from("0,400 ");
    let mut before = height;
    for (t, n) in all {
        let (x, y) = (*t as f64 / last * width, height - *n as f64 / most * height);
        // steps: the bytes are those from here to the next point
        let _ = write!(line, "{x:.2},{before:.2} {x:.2},{y:.2} ");
        before = y;
    }
    let _ = write!(line, "{width},{before:.2} {width},{height}");
    format!(
        "<html><head><meta charset=\"utf-8\"/><title>CPU Memory Timeline</title></head><body>\n\
         <h3>Max memory allocated: {:.3} MiB in {:.3} ms</h3>\n\
         <svg viewBox=\"0 0 1000 400\" width=\"100%\" style=\"border: 1px solid\">\
         <polygon points=\"{line}\" fill=\"#7f9fc9\"/></svg>\n</body></html>\n",
        most / f64::from(1 << 20),
        last / 1e6
    )
}
