//! Colours, each as a pair: one for a light ground and one for a dark one.

/// Which ground a figure is drawn on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// What the reader's system prefers (`prefers-color-scheme`); light where that cannot be known.
    #[default]
    Auto,
    /// Light, whatever the reader prefers.
    Light,
    /// Dark, whatever the reader prefers.
    Dark,
}

/// A colour on a light and on a dark ground, each `0xRRGGBB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color {
    pub(crate) light: u32,
    pub(crate) dark: u32,
}

impl Color {
    /// Different on the two grounds. Within a figure, the light colour decides the dark one.
    pub const fn pair(light: u32, dark: u32) -> Self {
        Self { light, dark }
    }

    /// The same on both grounds.
    pub const fn fixed(rgb: u32) -> Self {
        Self { light: rgb, dark: rgb }
    }

    /// Between two colours: `a` at 0, `b` at 1, the same on both grounds.
    pub fn mix(a: u32, b: u32, t: f64) -> Self {
        let channel = |shift: u32| {
            let [a, b] = [a, b].map(|c| f64::from((c >> shift) & 0xff));
            ((a + (b - a) * t.clamp(0.0, 1.0)).round() as u32) << shift
        };
        Self::fixed(channel(16) | channel(8) | channel(0))
    }

    /// Colours that change with the ground are written in another notation than those that do not, so that the style
    /// sheet of the dark ground finds the former by their value.
    pub(crate) fn svg(self) -> String {
        let Self { light: c, dark } = self;
        if c == dark {
            format!("rgb({},{},{})", c >> 16, (c >> 8) & 0xff, c & 0xff)
        } else {
            format!("#{c:06x}")
        }
    }
}

/// The ground itself.
pub const PAPER: Color = Color::pair(0xffffff, 0x15181c);
/// Text, and lines as important as text.
pub const INK: Color = Color::pair(0x222222, 0xe6e8ea);
/// Lesser text.
pub const SOFT: Color = Color::pair(0x5b6570, 0xa7b0ba);
/// Lines of the grid.
pub const GRID: Color = Color::pair(0xe5e7e9, 0x2c3238);
/// Frames of panels.
pub const FRAME: Color = Color::pair(0x8d949b, 0x6c757e);
/// Things to be seen but not looked at.
pub const GREY: Color = Color::pair(0x777777, 0xa0a6ac);
/// The colours of Okabe and Ito, which people with any colour vision can tell apart, and their like on dark ground.
pub const BLUE: Color = Color::pair(0x0072b2, 0x4ba6e3);
/// See [`BLUE`].
pub const VERMILION: Color = Color::pair(0xd55e00, 0xff8a4a);
/// See [`BLUE`].
pub const GREEN: Color = Color::pair(0x009e73, 0x34c79b);
/// See [`BLUE`].
pub const PURPLE: Color = Color::pair(0xaa4499, 0xdd8fce);
/// See [`BLUE`].
pub const ORANGE: Color = Color::pair(0xe69f00, 0xf2b645);
/// See [`BLUE`].
pub const SKY: Color = Color::pair(0x56b4e9, 0x9bdcfa);
/// See [`BLUE`].
pub const YELLOW: Color = Color::pair(0xc8b400, 0xe8dc62);
/// For lines that only have to differ, the best distinguished first.
pub const PALETTE: [Color; 7] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, YELLOW];
