//! A picture of the run: curves of file sizes, memory and times of operations, over the number of operations done.

use std::fmt::Write;

use crate::sample::Sample;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 680.0;
/// Height of one of the three panels.
const HEIGHT: f64 = 210.0;
const TOP: f64 = 46.0;

/// One curve: its name, its colour, and its value at a sample.
type Curve<'c> = (&'c str, &'c str, &'c dyn Fn(&Sample) -> f64);

/// A panel's vertical axis.
enum Axis {
    /// From zero to somewhat above the largest value, in MiB.
    Mib(f64),
    /// Logarithmic, in microseconds.
    Micros,
}

impl Axis {
    fn down(&self, top: f64, value: f64) -> f64 {
        let bottom = top + HEIGHT - 40.0;
        let share = match self {
            Axis::Mib(most) => value / most,
            // From 0.1 microseconds to 1 s.
            Axis::Micros => (value.max(0.1).log10() + 1.0) / 7.0,
        };
        bottom - share * (HEIGHT - 70.0)
    }

    fn marks(&self) -> Vec<(f64, String)> {
        match self {
            Axis::Mib(most) => {
                let step = step_of(most / 4.0);
                (0..8)
                    .map(|at| f64::from(at) * step)
                    .take_while(|at| at <= most)
                    .map(|at| (at, format!("{at} MiB")))
                    .collect()
            }
            Axis::Micros => {
                let labels = ["0.1 µs", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"];
                (-1_i32..).zip(labels).map(|(power, label)| (10_f64.powi(power), label.to_owned())).collect()
            }
        }
    }
}

/// Returns the smallest round number not below `least`.
fn step_of(least: f64) -> f64 {
    let tens = 10_f64.powf(least.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * tens).find(|step| *step >= least).unwrap_or(tens)
}

/// Draws the samples as SVG.
pub fn drawn(title: &str, samples: &[Sample]) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let micros = |nanos: u64| nanos as f64 / 1000.0;
    let all = 3.0 * HEIGHT + TOP + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {all}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{all}\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"22\">{title}</text>\n"
    );
    let files: [Curve<'_>; 5] = [
        ("all databases", "#0969da", &|sample| mib(sample.data())),
        ("B-tree at random", "#1a7f37", &|sample| mib(file(sample, "records"))),
        ("queues", "#bf3989", &|sample| mib(file(sample, "queues"))),
        ("hash file", "#9a6700", &|sample| mib(file(sample, "hashed"))),
        ("log", "#cf222e", &|sample| mib(sample.log)),
    ];
    let memory: [Curve<'_>; 3] = [
        ("resident, all", "#0969da", &|sample| mib(sample.resident)),
        ("shared region", "#1a7f37", &|sample| mib(sample.region)),
        ("the process's own", "#cf222e", &|sample| mib(sample.own)),
    ];
    let times: [Curve<'_>; 5] = [
        ("operation: half below", "#0969da", &|sample| micros(sample.operation.p50)),
        ("operation: 99 % below", "#1a7f37", &|sample| micros(sample.operation.p99)),
        ("operation: longest", "#9a6700", &|sample| micros(sample.operation.max)),
        ("commit: half below", "#bf3989", &|sample| micros(sample.commit.p50)),
        ("commit: 99 % below", "#cf222e", &|sample| micros(sample.commit.p99)),
    ];
    panel(&mut svg, 0, "files", &files, samples, |most| Axis::Mib(1.15 * most));
    panel(&mut svg, 1, "memory", &memory, samples, |most| Axis::Mib(1.15 * most));
    // The first sample has no times.
    panel(&mut svg, 2, "times", &times, &samples[1..], |_| Axis::Micros);
    svg + "</svg>\n"
}

fn file(sample: &Sample, name: &str) -> u64 {
    sample.files.get(name).copied().unwrap_or(0)
}

fn panel(
    svg: &mut String,
    number: u8,
    title: &str,
    curves: &[Curve<'_>],
    samples: &[Sample],
    axis: impl Fn(f64) -> Axis,
) {
    let top = TOP + f64::from(number) * HEIGHT;
    let values = curves.iter().flat_map(|(_, _, of)| samples.iter().map(of));
    let axis = axis(values.fold(1.0, f64::max));
    let last = samples.last().map_or(1, |sample| sample.operations);
    let across = |operations: u64| LEFT + operations as f64 / last as f64 * (RIGHT - LEFT);
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(svg, "{line}").expect("a string takes everything");
    put(format_args!("<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{title}</text>", top + 12.0));
    for (value, label) in axis.marks() {
        let y = axis.down(top, value);
        put(format_args!("<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#d0d7de\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, y + 4.0));
    }
    for tenth in (0..=10).step_by(2) {
        let operations = last / 10 * tenth;
        let label = if last >= 10_000_000 {
            format!("{} M", operations / 1_000_000)
        } else {
            format!("{} k", operations / 1000)
        };
        put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            across(operations),
            top + HEIGHT - 22.0
        ));
    }
    let mut names: Vec<(f64, &str, &str)> = Vec::new();
    for (name, colour, of) in curves {
        let points: Vec<String> = samples
            .iter()
            .map(|sample| format!("{:.1},{:.1}", across(sample.operations), axis.down(top, of(sample))))
            .collect();
        put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            points.join(" ")
        ));
        names.push((samples.last().map_or(top, |sample| axis.down(top, of(sample))), name, colour));
    }
    // The names are placed from the bottom up, so that no two overlap.
    names.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut label = f64::INFINITY;
    for (y, name, colour) in names {
        label = (y + 4.0).min(label - 14.0);
        put(format_args!("<text x=\"{:.1}\" y=\"{label:.1}\" fill=\"{colour}\">{name}</text>", RIGHT + 8.0));
    }
}
