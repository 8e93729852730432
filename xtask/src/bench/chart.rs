//! Curves on logarithmic axes, small pictures side by side, as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// Points with a name.
pub struct Curve {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}
/// One small picture.
pub struct Panel {
    pub title: String,
    pub curves: Vec<Curve>,
}

const COLUMNS: usize = 4;
const WIDTH: u32 = 340;
const HEIGHT: u32 = 260;
const COLOURS: [RGBColor; 3] = [RGBColor(200, 60, 30), RGBColor(30, 90, 180), RGBColor(130, 130, 130)];

/// The least and the largest, with room around them.
fn range(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    if least.is_finite() && most > 0.0 { least * 0.8..most * 1.25 } else { 0.1..10.0 }
}

fn panel(area: &DrawingArea<SVGBackend, Shift>, p: &Panel) -> Result<(), Box<dyn std::error::Error>> {
    let all = || p.curves.iter().flat_map(|c| c.points.iter());
    let (x, y) = (range(all().map(|p| p.0)), range(all().map(|p| p.1)));
    let mut chart = ChartBuilder::on(area)
        .caption(&p.title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(48)
        .build_cartesian_2d(x.log_scale(), y.log_scale())?;
    let number = |v: &f64| if *v >= 1000.0 || *v < 0.01 { format!("{v:.0e}") } else { format!("{v}") };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(6)
        .y_labels(5)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()?;
    for (c, colour) in p.curves.iter().zip(COLOURS) {
        let line = chart.draw_series(LineSeries::new(c.points.iter().copied(), colour.stroke_width(2)))?;
        line.label(c.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.7)).draw()?;
    Ok(())
}

/// Draws the panels in rows of four.
pub fn draw(path: &Path, title: &str, panels: &[Panel]) -> Result<(), String> {
    let all = || -> Result<(), Box<dyn std::error::Error>> {
        let rows = panels.len().div_ceil(COLUMNS);
        let size = (COLUMNS as u32 * WIDTH, rows as u32 * HEIGHT + 40);
        let area = SVGBackend::new(path, size).into_drawing_area();
        area.fill(&WHITE)?;
        let area = area.titled(title, ("sans-serif", 20))?;
        for (place, p) in area.split_evenly((rows, COLUMNS)).iter().zip(panels) {
            panel(place, p)?;
        }
        area.present()?;
        Ok(())
    };
    all().map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_curves_and_names() {
        let path = std::env::temp_dir().join(format!("chart-{}.svg", std::process::id()));
        let curve = |name| Curve { name, points: vec![(100.0, 1.0), (1e7, 0.2)] };
        let panels = [
            Panel { title: "add".into(), curves: vec![curve("ours"), curve("PyTorch")] },
            Panel { title: "empty".into(), curves: vec![] },
        ];
        draw(&path, "times", &panels).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let _ = std::fs::remove_file(&path);
        for word in ["<svg", "add", "empty", "ours", "PyTorch", "times", "polyline"] {
            assert!(text.contains(word), "{word}");
        }
    }
}
