//! Line plots as SVG.

use anyhow::anyhow;
use plotters::prelude::*;
pub use plotters::{chart::SeriesLabelPosition, style::RGBColor};

const SIZE: (u32, u32) = (760, 400);
/// One colour a policy; told apart by colour-blind readers too (Okabe and Ito).
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];
/// For what is not a policy.
pub const GREY: RGBColor = RGBColor(120, 130, 140);

/// A line: its label, its colour and its points.
pub type Line<'a> = (&'a str, RGBColor, Vec<(f64, f64)>);

/// Axes of a plot.
pub struct Axes<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub left: f64,
    pub low: f64,
    pub high: f64,
    pub legend: SeriesLabelPosition,
}

/// Draws lines, cut off at the axes.
pub fn lines(axes: &Axes<'_>, lines: &[Line<'_>]) -> anyhow::Result<String> {
    let mut svg = String::new();
    let right = lines.iter().flat_map(|(_, _, points)| points).map(|(x, _)| *x).fold(1.0, f64::max);
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let fail = |error: &dyn std::fmt::Display| anyhow!("cannot draw {:?}: {error}", axes.title);
        root.fill(&WHITE).map_err(|error| fail(&error))?;
        let mut chart = ChartBuilder::on(&root)
            .caption(axes.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(58)
            .build_cartesian_2d(axes.left..right, axes.low..axes.high)
            .map_err(|error| fail(&error))?;
        chart
            .configure_mesh()
            .x_desc(axes.x)
            .y_desc(axes.y)
            .axis_desc_style(("sans-serif", 16))
            .label_style(("sans-serif", 14))
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(228, 231, 235))
            .draw()
            .map_err(|error| fail(&error))?;
        for (label, colour, points) in lines {
            let style = colour.stroke_width(2);
            let inside = points.iter().map(|(x, y)| (*x, y.clamp(axes.low, axes.high)));
            chart
                .draw_series(LineSeries::new(inside, style))
                .map_err(|error| fail(&error))?
                .label(*label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(axes.legend.clone())
            .background_style(WHITE.mix(0.85))
            .label_font(("sans-serif", 15))
            .draw()
            .map_err(|error| fail(&error))?;
        root.present().map_err(|error| fail(&error))?;
    }
    Ok(svg)
}

/// A policy with its points, from left to right.
type Series<'a> = (&'a str, Vec<(f64, f64)>);

/// A scatter of numbered points, named beside it.
pub fn scatter(title: &str, x: &str, y: &str, points: &[(String, f64, f64)]) -> anyhow::Result<String> {
    let series: Vec<Series<'_>> = points.iter().map(|(label, x, y)| (label.as_str(), vec![(*x, *y)])).collect();
    logarithmic(title, x, y, &series)
}

/// Misses against cores, one line a policy.
pub fn frontier(title: &str, lines: &[Series<'_>]) -> anyhow::Result<String> {
    logarithmic(title, "cores reserved", "windows that miss the SLO, %", lines)
}

/// Lines of points, named beside them, on a logarithmic vertical axis, since misses span orders of magnitude. Where each
/// has one point only, the points are numbered.
fn logarithmic(title: &str, x: &str, y: &str, series: &[Series<'_>]) -> anyhow::Result<String> {
    // What never happens has no logarithm.
    const LEAST: f64 = 0.01;
    let mut svg = String::new();
    let all = || series.iter().flat_map(|(_, points)| points);
    let ends = |value: fn(&(f64, f64)) -> f64| {
        (all().map(value).fold(f64::INFINITY, f64::min), all().map(value).fold(LEAST, f64::max))
    };
    let ((left, right), (low, high)) = (ends(|point| point.0), ends(|point| point.1.max(LEAST)));
    let numbered = series.iter().all(|(_, points)| points.len() == 1);
    {
        let root = SVGBackend::with_string(&mut svg, (1100, 560)).into_drawing_area();
        let fail = |error: &dyn std::fmt::Display| anyhow!("cannot draw {title:?}: {error}");
        root.fill(&WHITE).map_err(|error| fail(&error))?;
        let (plot, names) = root.split_horizontally(690);
        let mut chart = ChartBuilder::on(&plot)
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.9 * left..1.05 * right, (low / 1.5..1.5 * high).log_scale())
            .map_err(|error| fail(&error))?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .y_label_formatter(&|share| short(*share))
            .axis_desc_style(("sans-serif", 16))
            .label_style(("sans-serif", 14))
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(228, 231, 235))
            .draw()
            .map_err(|error| fail(&error))?;
        for (index, (label, points)) in series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let mut points: Vec<_> = points.iter().map(|(x, y)| (*x, y.max(LEAST))).collect();
            points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            // Beyond the colours there are, lines are thin.
            let width = if index < COLOURS.len() { 2 } else { 1 };
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(width)))
                .map_err(|error| fail(&error))?;
            let number = if numbered { (index + 1).to_string() } else { String::new() };
            let size = if numbered { 4 } else { width + 1 };
            let dots = points.into_iter().map(|point| {
                let number = Text::new(number.clone(), (6, -5), ("sans-serif", 12).into_font());
                EmptyElement::at(point) + Circle::new((0, 0), size, colour.filled()) + number
            });
            chart.draw_series(dots).map_err(|error| fail(&error))?;
            let row = 44 + 20 * i32::try_from(index).unwrap_or(0);
            let name = format!("{number} {label}").trim_start().to_owned();
            if numbered {
                names.draw(&Circle::new((8, row), 4, colour.filled())).map_err(|error| fail(&error))?;
            } else {
                let line = PathElement::new([(0, row), (16, row)], colour.stroke_width(width));
                names.draw(&line).map_err(|error| fail(&error))?;
            }
            names
                .draw(&Text::new(name, (22, row - 7), ("sans-serif", 13).into_font()))
                .map_err(|error| fail(&error))?;
        }
        root.present().map_err(|error| fail(&error))?;
    }
    Ok(svg)
}

/// A tick of a logarithmic axis without the noise of its rounding.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_points_are_numbered_and_lines_are_not() {
        let points = [("one".to_owned(), 1.0, 2.0), ("none".to_owned(), 3.0, 0.0)];
        let svg = scatter("t", "x", "y", &points).unwrap();
        assert!(svg.contains("1 one") && svg.contains("2 none"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4, "two points and two names");
        let svg = frontier("t", &[("line", vec![(1.0, 2.0), (2.0, 1.0)]), ("dot", vec![(3.0, 0.5)])]).unwrap();
        assert!(svg.contains("dot") && !svg.contains("2 dot"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
