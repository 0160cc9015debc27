//! Plots: for each case a bar for each peer, and for each thing that was varied a line for each peer.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::peer::{Failure, Outcome};
use crate::record::Case;

use super::summary::{Summary, cases};

const WIDTH: u32 = 860;
const ROW: u32 = 26;
const MARGIN: u32 = 60;
const FONT: (&str, u32) = ("sans-serif", 14);

const OURS: RGBColor = RGBColor(200, 60, 30);
const FLOOR: RGBColor = RGBColor(170, 170, 170);
const MEMORY: RGBColor = RGBColor(110, 150, 200);
const DISK: RGBColor = RGBColor(50, 90, 150);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Something that cases differ in, and its name.
struct Variation {
    name: &'static str,
    label: &'static str,
    value: fn(&Case) -> f64,
    /// The case without it.
    rest: fn(Case) -> Case,
}

const VARIATIONS: [Variation; 4] = [
    Variation {
        name: "repeats",
        label: "share of repeats",
        value: |case| case.repeats,
        rest: |case| Case { repeats: 0.0, ..case },
    },
    Variation {
        name: "batch",
        label: "IDs in a call, log2",
        value: |case| (case.batch as f64).log2(),
        rest: |case| Case { batch: 0, ..case },
    },
    Variation {
        name: "threads",
        label: "threads",
        value: |case| case.threads as f64,
        rest: |case| Case { threads: 0, ..case },
    },
    Variation {
        name: "keys",
        label: "IDs preloaded and then checked, log10",
        value: |case| ((case.preload + case.keys) as f64).log10(),
        rest: |case| Case { keys: 0, preload: 0, ..case },
    },
];

/// Draws all plots into a folder and returns the names of their files.
///
/// # Errors
///
/// A file that cannot be written.
pub(super) fn draw(summaries: &[Summary], out: &Path) -> Outcome<Vec<String>> {
    let mut files = Vec::new();
    let Some(base) = cases(summaries).first().copied() else { return Ok(files) };
    for case in cases(summaries) {
        let mut rows: Vec<&Summary> = summaries.iter().filter(|summary| summary.case == case).collect();
        rows.sort_by(|left, right| right.rate().total_cmp(&left.rate()));
        let Case { keys, repeats, batch, threads, preload } = case;
        let file = format!("rates-n{keys}-p{preload}-r{repeats}-b{batch}-t{threads}.svg");
        bars(&case, &rows, &out.join(&file))?;
        files.push(file);
    }
    for variation in &VARIATIONS {
        let rest = (variation.rest)(base);
        // Who was stopped held fewer keys than its place on the axis says.
        let is_shown = |row: &&Summary| (variation.rest)(row.case) == rest && row.stopped_at.is_none();
        let rows: Vec<&Summary> = summaries.iter().filter(is_shown).collect();
        let mut values: Vec<f64> = rows.iter().map(|row| (variation.value)(&row.case)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.len() > 1 {
            let file = format!("by-{}.svg", variation.name);
            lines(variation, &rows, &values, &out.join(&file))?;
            files.push(file);
        }
    }
    Ok(files)
}

fn color(row: &Summary) -> RGBColor {
    match row.keeps.as_str() {
        _ if row.peer.starts_with("firstseen") => OURS,
        "floor" => FLOOR,
        "memory" => MEMORY,
        _ => DISK,
    }
}

/// The powers of ten around all rates.
fn decades(rows: &[&Summary]) -> (f64, f64) {
    let rates = || rows.iter().flat_map(|row| &row.rates).copied();
    let lowest = rates().fold(f64::INFINITY, f64::min).max(1.0);
    let highest = rates().fold(1.0, f64::max);
    (10_f64.powf(lowest.log10().floor()), 10_f64.powf(highest.log10().ceil()))
}

/// Plotters' errors borrow from the backend; their text does not.
fn said(cause: impl std::fmt::Display) -> Failure {
    cause.to_string().into()
}

/// One bar for each peer, the fastest on top, on a logarithmic axis.
fn bars(case: &Case, rows: &[&Summary], path: &Path) -> Outcome<()> {
    let height = ROW * rows.len() as u32 + 2 * MARGIN;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE).map_err(said)?;
    let (lowest, highest) = decades(rows);
    let (left, right) = (150, WIDTH as i32 - 110);
    let x = |rate: f64| {
        let share = (rate / lowest).log10() / (highest / lowest).log10();
        left + (share * f64::from(right - left)) as i32
    };
    write(&area, &format!("Checks a second: {}", case.title()), (WIDTH as i32 / 2, 24), HPos::Center)?;
    let bottom = MARGIN as i32 + (ROW * rows.len() as u32) as i32;
    let mut decade = lowest;
    while decade <= highest * 1.001 {
        let line = [(x(decade), MARGIN as i32 - 8), (x(decade), bottom)];
        area.draw(&PathElement::new(line.to_vec(), RGBColor(220, 220, 220))).map_err(said)?;
        write(&area, &scientific(decade), (x(decade), bottom + 16), HPos::Center)?;
        decade *= 10.0;
    }
    for (index, row) in rows.iter().enumerate() {
        let top = MARGIN as i32 + index as i32 * ROW as i32;
        let middle = top + ROW as i32 / 2;
        let corners = [(x(lowest), top + 3), (x(row.rate()), top + ROW as i32 - 4)];
        area.draw(&Rectangle::new(corners, color(row).filled())).map_err(said)?;
        if let [slowest, .., fastest] = row.rates[..] {
            let whisker = vec![(x(slowest), middle), (x(fastest), middle)];
            area.draw(&PathElement::new(whisker, BLACK)).map_err(said)?;
        }
        write(&area, &row.peer, (left - 8, middle), HPos::Right)?;
        let fastest = row.rates.last().copied().unwrap_or_default();
        let stopped = row.stopped_at.map_or_else(String::new, |at| format!(" (stopped at {at})"));
        let rate = format!("{:.3} M{stopped}", row.rate() / 1e6);
        write(&area, &rate, (x(fastest) + 8, middle), HPos::Left)?;
    }
    area.present().map_err(said)
}

fn scientific(decade: f64) -> String {
    format!("10^{}", decade.log10().round())
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), side: HPos) -> Outcome<()> {
    let style = TextStyle::from(FONT.into_font()).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(said)
}

/// One line for each peer over a thing that was varied.
fn lines(variation: &Variation, rows: &[&Summary], values: &[f64], path: &Path) -> Outcome<()> {
    let area = SVGBackend::new(path, (WIDTH, 620)).into_drawing_area();
    area.fill(&WHITE).map_err(said)?;
    let (lowest, highest) = decades(rows);
    let (first, last) = (values[0], values[values.len() - 1]);
    // Room on the right for the names.
    let reach = first..last + (last - first) * 0.25;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("Checks a second by {}", variation.label), FONT)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(reach, (lowest..highest).log_scale())
        .map_err(said)?;
    let y_label = |rate: &f64| format!("{rate:.0e}");
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(variation.label)
        .y_label_formatter(&y_label)
        .draw()
        .map_err(said)?;
    let mut peers: Vec<&str> = rows.iter().map(|row| row.peer.as_str()).collect();
    peers.sort_unstable();
    peers.dedup();
    for peer in peers {
        let own = rows.iter().filter(|row| row.peer == peer);
        let mut points: Vec<(f64, f64, RGBColor)> =
            own.map(|row| ((variation.value)(&row.case), row.rate(), color(row))).collect();
        points.sort_by(|left, right| left.0.total_cmp(&right.0));
        let Some((x, y, color)) = points.last().copied() else { continue };
        let path = points.iter().map(|point| (point.0, point.1));
        chart.draw_series(LineSeries::new(path.clone(), color.stroke_width(2))).map_err(said)?;
        chart.draw_series(path.map(|at| Circle::new(at, 3, color.filled()))).map_err(said)?;
        let name = EmptyElement::at((x, y)) + Text::new(peer.to_owned(), (8, -6), FONT);
        chart.draw_series([name]).map_err(said)?;
    }
    area.present().map_err(said)
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::line;
    use super::*;

    #[test]
    fn plots_of_two_cases_are_written() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let lines = [line("firstseen-memory", 64, 1.0), line("b", 64, 90.0), line("b", 1, 9.0)];
        let files = draw(&Summary::of(&lines), dir.path()).expect("plots");
        assert_eq!(files.len(), 3);
        for file in files {
            let text = std::fs::read_to_string(dir.path().join(&file)).expect("a file");
            assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{file}");
        }
    }

    #[test]
    fn decades_of_rates_hold_them() {
        let rows = Summary::of(&[line("a", 64, 1.0), line("b", 64, 90.0)]);
        assert_eq!(decades(&rows.iter().collect::<Vec<_>>()), (10.0, 1000.0));
    }
}
