//! What is drawn in a panel.

use crate::axis::Scale;
use crate::canvas::{Anchor, Canvas, Lettering, Pen, Pixel};
use crate::color::{BLUE, Color, GREY, INK, PURPLE};

/// Something drawn in the coordinates of a panel, with its look and its name in the legend.
///
/// Values that are not finite break lines and bands and leave points out.
#[derive(Clone, Debug)]
pub struct Mark {
    shape: Shape,
    pub(crate) name: String,
    color: Color,
    /// Width of lines, radius of points, height of text.
    size: f64,
    opacity: f64,
    dashed: bool,
    pub(crate) loose: bool,
}

#[derive(Clone, Debug)]
enum Shape {
    Line(Vec<(f64, f64)>),
    Band(Vec<(f64, f64, f64)>),
    Area(Vec<(f64, f64)>),
    Points(Vec<(f64, f64)>),
    Rings(Vec<(f64, f64)>),
    Cells(Vec<Cell>),
    Text((f64, f64), String, Anchor),
}

/// A filled rectangle with a text in it: a cell of a heat map, or a bar.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Left and right edge.
    pub x: (f64, f64),
    /// Lower and upper edge.
    pub y: (f64, f64),
    /// Its colour.
    pub color: Color,
    /// Written in its middle.
    pub text: String,
    /// Colour of the text.
    pub text_color: Color,
}

impl Mark {
    fn new(shape: Shape, color: Color, size: f64) -> Self {
        Self { shape, name: String::new(), color, size, opacity: 1.0, dashed: false, loose: false }
    }

    /// A line through points.
    pub fn line(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(Shape::Line(points.into_iter().collect()), BLUE, 1.5)
    }

    /// The room between a lower and an upper line: (x, lower, upper).
    pub fn band(band: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        Self::new(Shape::Band(band.into_iter().collect()), BLUE, 1.0).opacity(0.2).loose()
    }

    /// The inside of an outline.
    pub fn area(outline: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(Shape::Area(outline.into_iter().collect()), BLUE, 1.0).opacity(0.25)
    }

    /// A dot at each point; smaller ones if there are many.
    pub fn points(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points: Vec<_> = points.into_iter().collect();
        let radius = if points.len() > 800 { 1.2 } else { 2.0 };
        Self::new(Shape::Points(points), GREY, radius)
    }

    /// A ring about each point.
    pub fn rings(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(Shape::Rings(points.into_iter().collect()), INK, 3.6)
    }

    /// Rings, in a colour that nothing beside them has, about points that are drawn as well.
    pub fn outliers(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::rings(points).color(PURPLE).size(4.5).named("outlier")
    }

    /// Cells of a heat map.
    pub fn cells(cells: impl IntoIterator<Item = Cell>) -> Self {
        Self::new(Shape::Cells(cells.into_iter().collect()), GREY, 9.3)
    }

    /// Bars of one width from zero, each about its x.
    pub fn bars(points: impl IntoIterator<Item = (f64, f64)>, width: f64, color: Color) -> Self {
        let half = width / 2.0;
        Self::cells(points.into_iter().map(|(x, y)| Cell {
            x: (x - half, x + half),
            y: (y.min(0.0), y.max(0.0)),
            color,
            text: String::new(),
            text_color: INK,
        }))
        .color(color)
    }

    /// A text whose baseline is a little above the point.
    pub fn text(at: (f64, f64), text: impl Into<String>, anchor: Anchor) -> Self {
        Self::new(Shape::Text(at, text.into(), anchor), INK, 10.5)
    }

    /// In the legend, under this name; marks of one name have one entry.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// In another colour.
    #[must_use]
    pub fn color(mut self, color: Color) -> Self {
        self.color = color;
        self
    }

    /// Another width of lines, radius of points or height of text, in pixels.
    #[must_use]
    pub fn size(mut self, size: f64) -> Self {
        self.size = size;
        self
    }

    /// See-through: 0 cannot be seen, 1 hides what is below.
    #[must_use]
    pub fn opacity(mut self, opacity: f64) -> Self {
        self.opacity = opacity;
        self
    }

    /// With a broken line.
    #[must_use]
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// With less say in the vertical range: only as far as the other marks spread, as bands have. For what may begin
    /// far away or leave, and is not what the panel is about.
    #[must_use]
    pub fn loose(mut self) -> Self {
        self.loose = true;
        self
    }

    /// What decides the ranges of the axes: x, and lower and upper height.
    pub(crate) fn spans(&self) -> Vec<(f64, f64, f64)> {
        match &self.shape {
            Shape::Line(p) | Shape::Area(p) | Shape::Points(p) | Shape::Rings(p) => {
                p.iter().map(|p| (p.0, p.1, p.1)).collect()
            }
            Shape::Band(b) => b.clone(),
            Shape::Cells(c) => {
                c.iter().flat_map(|c| [(c.x.0, c.y.0, c.y.1), (c.x.1, c.y.0, c.y.1)]).collect()
            }
            Shape::Text(at, ..) => vec![(at.0, at.1, at.1)],
        }
    }

    fn pen(&self) -> Pen {
        let Self { color, size: width, opacity, dashed, .. } = *self;
        Pen { color, width, opacity, dashed }
    }

    pub(crate) fn put(&self, canvas: &mut Canvas, frame: &Frame) {
        let placed =
            |points: &[(f64, f64)]| -> Vec<Pixel> { points.iter().map(|p| frame.at(*p)).collect() };
        let finite = |points: &[(f64, f64)]| -> Vec<Pixel> {
            placed(points).into_iter().filter(|p| p.0.is_finite() && p.1.is_finite()).collect()
        };
        match &self.shape {
            Shape::Line(points) => canvas.line(&placed(points), self.pen()),
            Shape::Band(band) => {
                let inside = |v: f64| v.clamp(frame.y.low, frame.y.high);
                for piece in band.split(|b| !(b.1.is_finite() && b.2.is_finite())) {
                    let lower = piece.iter().map(|b| frame.at((b.0, inside(b.1))));
                    let upper = piece.iter().rev().map(|b| frame.at((b.0, inside(b.2))));
                    let outline: Vec<Pixel> = lower.chain(upper).collect();
                    match outline.as_slice() {
                        [] => {}
                        // One row between two gaps is a stroke.
                        [low, high] => canvas.line(
                            &[*low, *high],
                            Pen { opacity: self.opacity, ..Pen::new(self.color, 1.5) },
                        ),
                        outline => canvas.polygon(outline, self.color, self.opacity),
                    }
                }
            }
            Shape::Area(outline) => canvas.polygon(&finite(outline), self.color, self.opacity),
            Shape::Points(points) => {
                canvas.dots(&finite(points), self.size, self.color, self.opacity);
            }
            Shape::Rings(points) => {
                for point in finite(points) {
                    canvas.ring(point, self.size, Pen::new(self.color, 1.6));
                }
            }
            Shape::Cells(cells) => {
                for cell in cells {
                    let ((l, b), (r, t)) =
                        (frame.at((cell.x.0, cell.y.0)), frame.at((cell.x.1, cell.y.1)));
                    // A little apart from its neighbours.
                    let outline = [(l, b), (r - 1.0, b), (r - 1.0, t + 1.0), (l, t + 1.0)];
                    canvas.polygon(&outline, cell.color, self.opacity);
                    let style = Lettering {
                        color: cell.text_color,
                        ..Lettering::new(self.size, Anchor::Middle)
                    };
                    let middle = ((l + r) / 2.0, (t + b) / 2.0 + 0.37 * self.size);
                    canvas.text(middle, &cell.text, style);
                }
            }
            Shape::Text(at, text, anchor) => {
                let (x, y) = frame.at(*at);
                let style = Lettering { color: self.color, ..Lettering::new(self.size, *anchor) };
                canvas.text((x, y - 3.0), text, style);
            }
        }
    }

    /// The mark's look beside its name: 20 pixels wide, around a height.
    pub(crate) fn key(&self, canvas: &mut Canvas, x: f64, y: f64) {
        match self.shape {
            Shape::Line(_) => {
                let pen = Pen { width: self.size.clamp(1.6, 2.2), opacity: 1.0, ..self.pen() };
                canvas.line(&[(x, y), (x + 20.0, y)], pen);
            }
            Shape::Points(_) => canvas.dots(&[(x + 10.0, y)], 3.0, self.color, 1.0),
            Shape::Rings(_) => canvas.ring((x + 10.0, y), self.size, Pen::new(self.color, 1.6)),
            _ => {
                let (l, r) = (x + 2.0, x + 18.0);
                let patch = [(l, y - 5.0), (r, y - 5.0), (r, y + 5.0), (l, y + 5.0)];
                canvas.polygon(&patch, self.color, self.opacity.max(0.3));
            }
        }
    }
}

/// Where a panel is, and its scales.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) corner: Pixel,
    pub(crate) size: (f64, f64),
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Frame {
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> Pixel {
        let (px, py) = (self.x.place(x), 1.0 - self.y.place(y));
        (self.corner.0 + self.size.0 * px, self.corner.1 + self.size.1 * py)
    }
}
