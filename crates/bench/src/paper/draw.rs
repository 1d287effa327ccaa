//! Draws a figure as an SVG picture: curves if its places are numbers, bars if they are names.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::figure::{spelled, Figure, Place, Point, Series};
use crate::error::{Error, Result};

const SIZE: (u32, u32) = (900, 520);
/// Colours that colour-blind readers can tell apart (after Okabe and Ito).
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(150, 120, 40),
    RGBColor(120, 60, 160),
    RGBColor(160, 200, 60),
];
/// End of a linear vertical axis, as a multiple of the greatest value.
const HEADROOM: f64 = 1.15;

/// Width of the legend without its names, in pixels.
const NAMES_MARGIN: u32 = 34;
/// Average width of a letter of a name, in pixels.
const LETTER_WIDTH: u32 = 7;
const LONGEST_NAME: u32 = 48;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a figure.
///
/// # Errors
/// `Settings` if the figure has nothing to draw.
pub fn svg(figure: &Figure) -> Result<String> {
    let mut picture = String::new();
    let failed = |why: String| Error::Settings(format!("figure {} cannot be drawn: {why}", figure.id));
    {
        let area = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|why| failed(why.to_string()))?;
        let (chart, names) = area.split_horizontally(SIZE.0 - names_width(figure));
        let drawn = match figure.places().first() {
            Some(Place::Number(_)) => curves(figure, &chart),
            _ => bars(figure, &chart),
        };
        drawn.and_then(|()| legend(figure, &names)).map_err(failed)?;
        area.present().map_err(|why| failed(why.to_string()))?;
    }
    Ok(picture)
}

fn in_words<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

/// Returns the least and the greatest sample above zero, or a default for a figure without samples.
fn heights(figure: &Figure) -> (f64, f64) {
    let points = figure.series.iter().flat_map(|series| &series.points);
    let (least, greatest) = points
        .flat_map(|point| &point.samples)
        .filter(|sample| **sample > 0.0)
        .fold((f64::MAX, 0.0), |(least, most), sample| (f64::min(least, *sample), f64::max(most, *sample)));
    if greatest == 0.0 {
        return (0.1, 1.0);
    }
    (least, greatest)
}

fn numbers(series: &Series) -> Vec<(f64, f64)> {
    let at = |place: &Place| match place {
        Place::Number(number) => Some(*number),
        Place::Name(_) => None,
    };
    series.points.iter().filter_map(|point| Some((at(&point.x)?, point.median()?))).collect()
}

/// Returns, for each point with several samples, the ends of a line from the least sample to the greatest.
fn spreads(series: &Series) -> Vec<[(f64, f64); 2]> {
    let ends = |point: &Point| match point.x {
        Place::Number(x) if point.samples.len() > 1 => point.spread().map(|(least, most)| [(x, least), (x, most)]),
        _ => None,
    };
    series.points.iter().filter_map(ends).collect()
}

/// Returns the width of the legend: of the longest name, its coloured sign, and a margin.
fn names_width(figure: &Figure) -> u32 {
    let longest = figure.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    NAMES_MARGIN + LETTER_WIDTH * u32::try_from(longest).unwrap_or(LONGEST_NAME).min(LONGEST_NAME)
}

/// Draws the names with their colours next to the chart, where they do not cover a curve.
fn legend(figure: &Figure, area: &Area<'_>) -> std::result::Result<(), String> {
    let named = figure.series.iter().zip(COLOURS.iter().cycle()).zip((0..).map(|nth| 50 + 22 * nth));
    for ((series, colour), down) in named {
        area.draw(&Rectangle::new([(0, down - 4), (16, down + 4)], colour.filled())).map_err(in_words)?;
        area.draw(&Text::new(series.name.as_str(), (24, down - 6), ("sans-serif", 12))).map_err(in_words)?;
    }
    Ok(())
}

fn curves(figure: &Figure, area: &Area<'_>) -> std::result::Result<(), String> {
    let places = figure.places();
    let ends = [places.first(), places.last()].map(|place| match place {
        Some(Place::Number(number)) => *number,
        _ => 1.0,
    });
    let (least, greatest) = heights(figure);
    let upwards = if figure.y.is_logarithmic { least / 1.5..greatest * 1.5 } else { 0.0..greatest * HEADROOM };
    let along = match figure.x.is_logarithmic {
        true => ends[0] / 1.1..ends[1] * 1.1,
        false => ends[0]..ends[1].max(ends[0] + 1.0),
    };
    match (figure.x.is_logarithmic, figure.y.is_logarithmic) {
        (true, true) => on_axes(figure, area, along.log_scale(), upwards.log_scale()),
        (true, false) => on_axes(figure, area, along.log_scale(), upwards),
        (false, true) => on_axes(figure, area, along, upwards.log_scale()),
        (false, false) => on_axes(figure, area, along, upwards),
    }
}

fn on_axes<X, Y>(figure: &Figure, area: &Area<'_>, along: X, upwards: Y) -> std::result::Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&figure.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(86)
        .build_cartesian_2d(along, upwards)
        .map_err(in_words)?;
    chart
        .configure_mesh()
        .x_desc(&figure.x.name)
        .y_desc(&figure.y.name)
        .light_line_style(WHITE.mix(0.0))
        .x_label_formatter(&|at| spelled(*at))
        .y_label_formatter(&|at| spelled(*at))
        .draw()
        .map_err(in_words)?;
    for (series, colour) in figure.series.iter().zip(COLOURS.iter().cycle()) {
        let points = numbers(series);
        if points.is_empty() {
            continue;
        }
        let colour = *colour;
        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2))).map_err(in_words)?;
        let spreads = spreads(series).into_iter().map(|ends| PathElement::new(ends, colour.stroke_width(1)));
        chart.draw_series(spreads).map_err(in_words)?;
        chart.draw_series(points.into_iter().map(|at| Circle::new(at, 3, colour.filled()))).map_err(in_words)?;
    }
    Ok(())
}

fn bars(figure: &Figure, area: &Area<'_>) -> std::result::Result<(), String> {
    let places = figure.places();
    let (least, greatest) = heights(figure);
    let across = |count: usize| u32::try_from(count).map_or(0.0, f64::from);
    let along = 0.0..across(places.len()).max(1.0);
    let floor = if figure.y.is_logarithmic { least / 3.0 } else { 0.0 };
    if figure.y.is_logarithmic {
        return on_bars(figure, area, &places, along, (floor..greatest * 2.0).log_scale(), floor);
    }
    on_bars(figure, area, &places, along, floor..greatest * HEADROOM, floor)
}

fn on_bars<Y>(
    figure: &Figure,
    area: &Area<'_>,
    places: &[Place],
    along: std::ops::Range<f64>,
    upwards: Y,
    floor: f64,
) -> std::result::Result<(), String>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&figure.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(86)
        .build_cartesian_2d(along, upwards)
        .map_err(in_words)?;
    let named = |at: &f64| {
        let place = places.iter().enumerate().find(|(nth, _)| (at - index(*nth) - 0.5).abs() < 0.01);
        place.map(|(_, place)| place.to_string()).unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc(&figure.x.name)
        .y_desc(&figure.y.name)
        .light_line_style(WHITE.mix(0.0))
        .x_labels(places.len() * 2 + 1)
        .x_label_formatter(&named)
        .y_label_formatter(&|at| spelled(*at))
        .draw()
        .map_err(in_words)?;
    let width = 0.8 / index(figure.series.len().max(1));
    for (nth, (series, colour)) in figure.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let colour = *colour;
        let boxes = series.points.iter().filter_map(|point| {
            let place = places.iter().position(|place| *place == point.x)?;
            let left = index(place) + 0.1 + width * index(nth);
            Some(Rectangle::new([(left, floor), (left + width * 0.92, point.median()?)], colour.filled()))
        });
        chart.draw_series(boxes).map_err(in_words)?;
        let spreads = series.points.iter().filter(|point| point.samples.len() > 1).filter_map(|point| {
            let (place, (least, most)) = (places.iter().position(|place| *place == point.x)?, point.spread()?);
            let middle = index(place) + 0.1 + width * (index(nth) + 0.46);
            Some(PathElement::new([(middle, least.max(floor)), (middle, most)], BLACK.stroke_width(1)))
        });
        chart.draw_series(spreads).map_err(in_words)?;
    }
    Ok(())
}

fn index(at: usize) -> f64 {
    u32::try_from(at).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::figure::Axis;

    fn figure(places: &[Place], is_logarithmic: bool) -> Figure {
        let axis = |name: &str| Axis { name: name.to_owned(), is_logarithmic };
        let points = |by: f64| {
            let nth = places.iter().zip(1_u32..);
            nth.map(|(x, nth)| Point { x: x.clone(), samples: vec![f64::from(nth) * by; 2], refused: None }).collect()
        };
        let series = ["libtp", "a peer"]
            .iter()
            .zip([100.0, 1.0])
            .map(|(name, by)| Series { name: (*name).to_owned(), points: points(by) });
        Figure {
            id: "f".into(),
            title: "A title".into(),
            paper: String::new(),
            here: String::new(),
            x: axis("clients"),
            y: axis("transactions per second"),
            series: series.collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn curves_have_a_mark_for_each_point_and_bars_have_every_name() {
        for is_logarithmic in [false, true] {
            let curves = svg(&figure(&[1.0, 4.0, 64.0].map(Place::Number), is_logarithmic)).unwrap();
            assert_eq!(curves.matches("<circle").count(), 6, "{curves}");
            let bars = svg(&figure(&["one", "two"].map(|name| Place::Name(name.into())), is_logarithmic)).unwrap();
            for word in ["A title", "libtp", "a peer", "one", "two"] {
                assert!(bars.contains(word), "{word} is missing: {bars}");
            }
        }
    }

    #[test]
    fn a_point_with_several_samples_has_a_line_from_the_least_to_the_greatest() {
        for places in [[1.0, 4.0].map(Place::Number), ["one", "two"].map(|name| Place::Name(name.into()))] {
            // Returns the heights of all vertical lines, in pixels.
            let drawn = |samples: &[f64]| {
                let mut figure = figure(&places, false);
                let points = figure.series.iter_mut().flat_map(|series| &mut series.points);
                points.for_each(|point| point.samples = samples.to_vec());
                let picture = svg(&figure).unwrap();
                let lines = picture.split("<polyline").skip(1).filter_map(|line| {
                    let points = line.split_once("points=\"")?.1.split_once('"')?.0;
                    let ends: Vec<(f64, f64)> = points
                        .split_whitespace()
                        .filter_map(|end| end.split_once(','))
                        .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                        .collect();
                    let [(left, top), (right, bottom)] = ends[..] else { return None };
                    (left == right).then_some((top - bottom).abs())
                });
                lines.collect::<Vec<f64>>()
            };
            // The lines of the axes and of their marks are drawn first, and are the same each time.
            let others = drawn(&[9.0]).len();
            for (samples, high) in [([1.0, 1.0, 9.0], 8.0), ([2.0, 3.0, 9.0], 7.0), ([5.5, 8.5, 9.0], 3.5)] {
                let lines = &drawn(&samples)[others..];
                assert_eq!(lines.len(), 4, "{places:?}: wanted a line for each of two points of two series");
                let unit = drawn(&[1.0, 1.0, 9.0])[others] / 8.0;
                assert!(lines.iter().all(|line| (line - high * unit).abs() <= 2.0), "{samples:?}: {lines:?}, {unit}");
            }
        }
    }

    #[test]
    fn a_figure_without_samples_is_drawn_empty() {
        let mut empty = figure(&[1.0, 2.0].map(Place::Number), true);
        empty.series.iter_mut().flat_map(|series| &mut series.points).for_each(|point| point.samples.clear());
        assert!(svg(&empty).unwrap().contains("A title"));
        empty.series.clear();
        assert!(svg(&empty).unwrap().contains("A title"));
    }
}
