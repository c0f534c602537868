//! Panels side by side and below each other, with one legend.

use crate::axis::{Axis, Scale, Ticks, extent};
use crate::canvas::{Anchor, Canvas, Lettering, Pen, Pixel};
use crate::color::{FRAME, GRID, SOFT, Theme};
use crate::font;
use crate::mark::{Frame, Mark};

/// One coordinate system.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Written above it.
    pub title: String,
    /// Written above its row, at the left of the figure.
    pub heading: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, from the bottom to the top.
    pub marks: Vec<Mark>,
}

impl Panel {
    /// An empty one.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), heading: String::new(), x, y, marks: Vec::new() }
    }

    /// With one more mark on top.
    #[must_use]
    pub fn with(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    /// The values that decide the vertical range. Bands, and marks that are loose, do so only as far as the other values
    /// spread or a band is usually wide, so that a wide initial belief does not flatten the picture.
    fn heights(&self) -> Vec<f64> {
        let (loose, firm): (Vec<&Mark>, Vec<&Mark>) = self.marks.iter().partition(|m| m.loose);
        let finite = |s: &(f64, f64, f64)| s.1.is_finite() && s.2.is_finite();
        let loose: Vec<_> = loose.into_iter().flat_map(Mark::spans).filter(finite).collect();
        let firm = firm.into_iter().flat_map(Mark::spans).filter(finite);
        let mut widths: Vec<f64> = loose.iter().map(|s| s.2 - s.1).collect();
        widths.sort_by(f64::total_cmp);
        let usual = widths.get(widths.len() / 2).copied().unwrap_or(0.0);
        let mut values: Vec<f64> = firm.flat_map(|s| [s.1, s.2]).collect();
        let (low, high) = extent(values.iter().copied());
        let reach = if low <= high { (high - low).max(usual) } else { f64::INFINITY };
        let (low, high) = if low <= high { (low - reach, high + reach) } else { (-reach, reach) };
        values.extend(loose.iter().flat_map(|s| [s.1.clamp(low, high), s.2.clamp(low, high)]));
        values
    }
}

/// A figure: a title, panels, a legend of the marks that have names, and a note.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// Whether the title is drawn, or only there for readers who cannot see the figure.
    pub title_drawn: bool,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// Panels in a row.
    pub columns: usize,
    /// Height of each panel.
    pub panel_height: f64,
    /// Whether all panels have the range of all horizontal values, and only the last row a label below.
    pub shared_x: bool,
    /// Written below the panels.
    pub note: String,
    /// Width of the whole.
    pub width: f64,
}

const RIGHT: f64 = 16.0;
const TEXT: f64 = 11.0;
const LINE: f64 = 19.0;

impl Figure {
    /// An empty one with its title drawn.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            title_drawn: true,
            panels: Vec::new(),
            columns: 1,
            panel_height: 190.0,
            shared_x: false,
            note: String::new(),
            width: 920.0,
        }
    }

    /// With one more panel.
    #[must_use]
    pub fn with(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// The figure as pixels, `scale` to each unit; [`Theme::Auto`] is light.
    #[cfg(feature = "png")]
    pub fn png(&self, theme: Theme, scale: f32) -> Result<Vec<u8>, crate::PngError> {
        let theme = if theme == Theme::Auto { Theme::Light } else { theme };
        crate::png::png(&self.svg(theme), scale)
    }

    /// The figure in a page of its own, with a text below it.
    pub fn html(&self, text: &str, theme: Theme) -> String {
        let dark = "body{background:#15181c;color:#e6e8ea}pre{background:#22272d}";
        let dark = match theme {
            Theme::Auto => format!("@media(prefers-color-scheme:dark){{{dark}}}"),
            Theme::Light => String::new(),
            Theme::Dark => dark.to_owned(),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>{0}</title>\n<style>body{{font-family:sans-serif;max-width:920px;\
             margin:2em auto;padding:0 1em}}svg{{width:100%;height:auto}}pre{{background:#f4f4f4;padding:1em;\
             overflow:auto}}{dark}</style></head>\n<body>\n{1}<pre>{2}</pre>\n</body></html>\n",
            crate::escape(&self.title),
            self.svg(theme),
            crate::escape(text)
        )
    }

    /// The figure as an SVG document, which may also stand inside an HTML page.
    pub fn svg(&self, theme: Theme) -> String {
        let mut canvas = Canvas::new();
        let columns = self.columns.max(1);
        let scales: Vec<(Scale, Scale)> = self.scales();
        let y_ticks: Vec<Ticks> = (self.panels.iter().zip(&scales))
            .map(|(p, s)| p.y.ticks_of(&s.1, (self.panel_height / 38.0).clamp(2.0, 7.0) as usize))
            .collect();
        let mut lefts = vec![14.0_f64; columns];
        for (i, (panel, ticks)) in self.panels.iter().zip(&y_ticks).enumerate() {
            lefts[i % columns] = lefts[i % columns].max(room(panel, ticks));
        }
        let total: f64 = lefts.iter().sum();
        let width = ((self.width - total - RIGHT * columns as f64) / columns as f64).max(20.0);
        let mut y = 8.0;
        if self.title_drawn {
            let style = Lettering { bold: true, ..Lettering::new(14.0, Anchor::Start) };
            canvas.text((lefts[0], y + 14.0), &self.title, style);
            y += 24.0;
        }
        y = self.legend(&mut canvas, lefts[0], y);
        for (r, row) in self.panels.chunks(columns).enumerate() {
            let (first, mut x) = (r * columns, 0.0);
            if row.iter().any(|p| !p.heading.is_empty()) {
                let style = Lettering { bold: true, ..Lettering::new(13.0, Anchor::Start) };
                canvas.text((12.0, y + 14.0), &row[0].heading, style);
                y += 22.0;
            }
            y += if row.iter().any(|p| !p.title.is_empty()) { 22.0 } else { 8.0 };
            let mut below = 0.0_f64;
            for (c, panel) in row.iter().enumerate() {
                let i = first + c;
                x += lefts[c];
                let (sx, sy) = scales[i];
                let size = (width, self.panel_height);
                let frame = Frame { corner: (x, y), size, x: sx, y: sy };
                let x_ticks = fitting(&panel.x, &sx, width);
                let labelled = !self.shared_x || i + columns >= self.panels.len();
                below = below.max(panel.put(&mut canvas, &frame, &x_ticks, &y_ticks[i], labelled));
                x += width + RIGHT;
            }
            y += self.panel_height + below + 8.0;
        }
        if !self.note.is_empty() {
            let style = Lettering { color: SOFT, ..Lettering::new(TEXT, Anchor::Start) };
            canvas.text((lefts[0], y + 12.0), &self.note, style);
            y += 16.0;
        }
        canvas.finish((self.width, (y + 8.0).ceil()), &self.title, theme)
    }

    /// Horizontal and vertical scale of each panel.
    fn scales(&self) -> Vec<(Scale, Scale)> {
        let scales = self.panels.iter().map(|panel| {
            let about = if self.shared_x { &self.panels[..] } else { core::slice::from_ref(panel) };
            let marks = about.iter().flat_map(|p| &p.marks);
            let x = panel.x.scale(marks.flat_map(Mark::spans).map(|s| s.0), 0.01);
            (x, panel.y.scale(panel.heights().into_iter(), 0.06))
        });
        scales.collect()
    }

    /// The named marks from left to right, in as many lines as they need; returns where these end.
    fn legend(&self, canvas: &mut Canvas, left: f64, mut y: f64) -> f64 {
        let mut named: Vec<&Mark> = Vec::new();
        for mark in self.panels.iter().flat_map(|p| &p.marks).filter(|m| !m.name.is_empty()) {
            if !named.iter().any(|m| m.name == mark.name) {
                named.push(mark);
            }
        }
        let mut x = left;
        for mark in &named {
            let width = 26.0 + font::width(&mark.name, TEXT, false);
            if x > left && x + width > self.width - RIGHT {
                (x, y) = (left, y + LINE);
            }
            mark.key(canvas, x, y + 9.0);
            canvas.text((x + 26.0, y + 13.0), &mark.name, Lettering::new(TEXT, Anchor::Start));
            x += width + 20.0;
        }
        if named.is_empty() { y } else { y + LINE + 5.0 }
    }
}

impl Panel {
    /// Draws it; returns the room taken below its frame.
    fn put(&self, canvas: &mut Canvas, frame: &Frame, x: &Ticks, y: &Ticks, labelled: bool) -> f64 {
        let (left, top) = frame.corner;
        let (right, bottom) = (left + frame.size.0, top + frame.size.1);
        let small = |anchor| Lettering::new(10.5, anchor);
        let ticked = |at: f64, low: f64, high: f64| (low - 0.5..=high + 0.5).contains(&at);
        let mut below: f64 = if self.x.visible { 18.0 } else { 0.0 };
        for (v, text) in &x.at {
            let (at, _) = frame.at((*v, 0.0));
            if !ticked(at, left, right) {
                continue;
            }
            if self.x.grid {
                canvas.line(&[(at, top), (at, bottom)], Pen::new(GRID, 0.8));
            }
            for (line, text) in text.lines().enumerate() {
                let down = 15.0 + 13.0 * line as f64;
                let half = font::width(text, 10.5, false) / 2.0 + 1.0;
                let inside = at.min(right + RIGHT - half).max(left - room(self, y) + half);
                canvas.text((inside, bottom + down), text, small(Anchor::Middle));
                below = below.max(down + 3.0);
            }
        }
        for (v, text) in &y.at {
            let (_, at) = frame.at((0.0, *v));
            if !ticked(at, top, bottom) {
                continue;
            }
            if self.y.grid {
                canvas.line(&[(left, at), (right, at)], Pen::new(GRID, 0.8));
            }
            canvas.text((left - 6.0, at + 3.8), text, small(Anchor::End));
        }
        canvas.text((left - 6.0, top - 7.0), &y.note, small(Anchor::End));
        let bold = Lettering { bold: true, ..Lettering::new(12.0, Anchor::Start) };
        canvas.text((left, top - 7.0), &self.title, bold);
        let middle = Lettering { color: SOFT, ..Lettering::new(TEXT, Anchor::Middle) };
        let upwards = Lettering { upwards: true, ..middle };
        let at = left - room(self, y) + 14.0;
        canvas.text((at, top + frame.size.1 / 2.0), &self.y.label, upwards);
        let label = match (labelled, x.note.is_empty()) {
            (false, true) => String::new(),
            (true, true) => self.x.label.clone(),
            (_, false) => format!("{} ({})", self.x.label, x.note),
        };
        if !label.is_empty() {
            canvas.text((left + frame.size.0 / 2.0, bottom + below + 12.0), &label, middle);
            below += 17.0;
        }
        canvas.begin_clip(frame.corner, frame.size);
        for mark in &self.marks {
            mark.put(canvas, frame);
        }
        canvas.end_clip();
        if (self.x.visible && self.x.grid) || (self.y.visible && self.y.grid) {
            let corners: [Pixel; 5] =
                [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
            canvas.line(&corners, Pen::new(FRAME, 0.9));
        }
        below
    }
}

/// The room at the left of a panel.
fn room(panel: &Panel, ticks: &Ticks) -> f64 {
    let texts = ticks.at.iter().map(|t| &t.1).chain([&ticks.note]);
    let widest = texts.map(|t| font::width(t, 10.5, false)).fold(0.0, f64::max);
    widest + 12.0 + if panel.y.label.is_empty() { 0.0 } else { 18.0 }
}

/// As many ticks as have room beside each other.
fn fitting(axis: &Axis, scale: &Scale, width: f64) -> Ticks {
    let fits = |ticks: &Ticks| {
        let half = |text: &str| {
            text.lines().map(|l| font::width(l, 10.5, false) / 2.0).fold(0.0, f64::max)
        };
        ticks.at.windows(2).all(|pair| {
            let [a, b] = [&pair[0], &pair[1]];
            width * (scale.place(b.0) - scale.place(a.0)).abs() >= half(&a.1) + half(&b.1) + 10.0
        })
    };
    let most = (width / 70.0).clamp(2.0, 9.0) as usize;
    let choices = (2..=most).rev().map(|most| axis.ticks_of(scale, most));
    choices.into_iter().find(fits).unwrap_or_else(|| axis.ticks_of(scale, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(marks: Vec<Mark>) -> Figure {
        let mut panel = Panel::new("x", Axis::linear("time"), Axis::linear(""));
        panel.marks = marks;
        Figure::new("a <test> & more").with(panel)
    }

    fn rows(n: u32) -> impl Iterator<Item = (f64, f64)> {
        (0..n).map(|i| (f64::from(i), (0.1 * f64::from(i)).sin()))
    }

    /// The numbers of all path data of an element that has this attribute.
    fn path_of<'a>(svg: &'a str, attribute: &str) -> &'a str {
        let line = svg.lines().find(|l| l.contains(attribute)).unwrap();
        line.split("d=\"").nth(1).unwrap().split('"').next().unwrap()
    }

    #[test]
    fn a_gap_breaks_a_line_and_a_lone_value_is_a_dot() {
        let gap = rows(40).map(|(x, y)| {
            (x, if (10..20).contains(&(x as i32)) || x == 21.0 { f64::NAN } else { y })
        });
        let svg = one(vec![Mark::line(gap).color(Color::fixed(0x010203))]).svg(Theme::Light);
        let d = path_of(&svg, "rgb(1,2,3)");
        assert_eq!(
            (d.matches('M').count(), d.matches("h0").count(), d.matches('l').count()),
            (3, 1, 26)
        );
    }

    #[test]
    fn a_wide_first_band_does_not_flatten_the_rest_and_a_constant_shows_its_band() {
        let band =
            rows(50).map(|(x, y)| if x == 0.0 { (x, -1e6, 1e6) } else { (x, y - 0.1, y + 0.1) });
        let heights = one(vec![Mark::line(rows(50)), Mark::band(band)]).panels[0].heights();
        assert!(heights.iter().all(|v| v.abs() < 4.0));
        let constant = || (0..50).map(|i| (f64::from(i), 7.0));
        let flat = one(vec![
            Mark::line(constant()),
            Mark::band(constant().map(|(x, y)| (x, y - 0.5, y + 0.5))),
        ]);
        let scale = flat.scales()[0].1;
        assert!(
            scale.low > 6.3 && scale.low < 6.5 && scale.high > 7.5 && scale.high < 7.7,
            "{scale:?}"
        );
        // A line that begins far away and is said to be loose.
        let far = constant().map(|(x, y)| (x, if x == 0.0 { -1e9 } else { y }));
        let loose = one(vec![Mark::points(constant()), Mark::line(far).loose()]).scales()[0].1;
        assert!(loose.low > 6.0 && loose.high < 8.0, "{loose:?}");
        // Without a band, and even without values.
        let alone = one(vec![Mark::line(constant())]).scales()[0].1;
        assert!(alone.low < 7.0 && alone.low > 5.0 && alone.high > 7.0 && alone.high < 9.0);
        assert!(one(vec![Mark::line([]), Mark::band([])]).svg(Theme::Auto).contains("</svg>"));
    }

    #[test]
    fn the_dark_ground_is_asked_for_or_fixed() {
        let figure = one(vec![Mark::line(rows(5)), Mark::outliers(rows(2))]);
        let [auto, light, dark] = [Theme::Auto, Theme::Light, Theme::Dark].map(|t| figure.svg(t));
        assert!(
            auto.contains("prefers-color-scheme:dark")
                && auto.contains("[fill=\"#ffffff\"]{fill:#15181c}")
        );
        assert!(!light.contains("prefers") && light.contains("\"#ffffff\""));
        assert!(!dark.contains("prefers") && dark.contains("[fill=\"#ffffff\"]{fill:#15181c}"));
        assert!(figure.html("a <note>", Theme::Auto).contains("<pre>a &lt;note&gt;</pre>"));
    }

    #[test]
    fn names_inside_figures_differ_and_are_well_formed() {
        let names = |figure: &Figure| {
            let svg = figure.svg(Theme::Auto);
            assert!(svg.contains("a &lt;test&gt; &amp; more") && !svg.contains('\u{1}'));
            svg.split("id=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
        };
        let (a, b) = (one(vec![Mark::line(rows(5))]), one(vec![Mark::line(rows(6))]));
        assert_ne!(names(&a), names(&b));
        assert_eq!(names(&a), names(&a));
    }

    #[test]
    fn every_mark_of_a_name_is_one_entry() {
        let marks = (0..3).map(|_| Mark::line(rows(5)).named("same")).collect();
        let with = one(marks).svg(Theme::Light);
        let without = one((0..3).map(|_| Mark::line(rows(5))).collect()).svg(Theme::Light);
        // One more line: the key. One more text: the name.
        assert_eq!(with.matches("<path d=").count(), without.matches("<path d=").count() + 1);
        assert_eq!(with.matches("<g fill").count(), without.matches("<g fill").count() + 1);
    }

    #[test]
    #[cfg(feature = "png")]
    fn pixels_differ_between_grounds_and_have_the_size_asked_for() {
        let mut figure = one(vec![Mark::line(rows(50)), Mark::points(rows(50)).named("状態")]);
        let [light, dark] = [Theme::Auto, Theme::Dark].map(|t| figure.png(t, 1.0).unwrap());
        assert!(light.starts_with(b"\x89PNG") && light != dark);
        assert_eq!(light[16..20], 920_u32.to_be_bytes());
        figure.panel_height = 1e6;
        let error = figure.png(Theme::Auto, 1.0).unwrap_err();
        assert!(error.to_string().contains("fewer panels"), "{error}");
        figure.panels[0].marks = vec![Mark::line([(f64::MAX, f64::MIN), (f64::MIN, f64::MAX)])];
        figure.panel_height = 100.0;
        assert!(figure.png(Theme::Auto, 1.0).is_ok());
    }

    use crate::color::Color;
}
