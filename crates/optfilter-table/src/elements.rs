//! The elements of NumPy's arrays, by the name of their type: little-endian numbers, booleans, texts and instants.

/// The elements of any array that a table can hold, or some of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Numbers(Vec<f64>),
    Texts(Vec<String>),
    /// Instants in seconds since 1970; NaN where there is none.
    Seconds(Vec<f64>),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Unsigned bytes and truth values.
    Byte,
    /// Other numbers, by how their bytes become doubles.
    Number(fn(&[u8]) -> Vec<f64>),
    /// Texts of a fixed length, filled up with zeros: of characters of four bytes, or of bytes.
    Characters,
    Bytes,
    /// datetime64, with so many ticks in a second.
    Ticks(f64),
}

/// What the elements of an array are, and how many bytes each of them has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    kind: Kind,
    size: usize,
}

impl Elements {
    /// Those of a type as NumPy spells it after the order of bytes (`f8`, `u1`, `U12`, `M8[us]`).
    pub(crate) fn of(name: &str) -> Result<Self, String> {
        let text = |length: &str, width: usize| {
            let size = length.parse::<usize>().ok().and_then(|l| l.checked_mul(width));
            size.ok_or("its texts have no length")
        };
        macro_rules! number {
            ($t:ty) => {{
                let doubles = |bytes: &[u8]| {
                    let (elements, _) = bytes.as_chunks::<{ size_of::<$t>() }>();
                    elements.iter().map(|b| <$t>::from_le_bytes(*b) as f64).collect()
                };
                (Kind::Number(doubles), size_of::<$t>())
            }};
        }
        let (kind, size) = match name {
            "u1" | "b1" => (Kind::Byte, 1),
            "i1" => number!(i8),
            "i2" => number!(i16),
            "i4" => number!(i32),
            "i8" => number!(i64),
            "u2" => number!(u16),
            "u4" => number!(u32),
            "u8" => number!(u64),
            "f4" => number!(f32),
            "f8" => number!(f64),
            "O" => {
                let why =
                    "it holds Python objects; save it with a type of numbers, or with dtype=str";
                return Err(why.into());
            }
            _ => match (name.strip_prefix('U'), name.strip_prefix('S'), unit(name)) {
                (Some(length), ..) => (Kind::Characters, text(length, 4)?),
                (_, Some(length), _) => (Kind::Bytes, text(length, 1)?),
                (.., Some(unit)) => (Kind::Ticks(per_second(unit)?), 8),
                _ => {
                    return Err(format!(
                        "number type {name:?} is not supported; save it as float64"
                    ));
                }
            },
        };
        Ok(Self { kind, size })
    }

    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        self.size
    }

    pub(crate) fn are_texts(self) -> bool {
        matches!(self.kind, Kind::Characters | Kind::Bytes)
    }

    pub(crate) fn are_bytes(self) -> bool {
        matches!(self.kind, Kind::Byte)
    }

    pub(crate) fn are_instants(self) -> bool {
        matches!(self.kind, Kind::Ticks(_))
    }

    /// Whether so many bytes are so many elements.
    pub(crate) fn check(self, count: usize, bytes: usize) -> Result<(), String> {
        let Self { size, .. } = self;
        if size == 0 && count > 0 {
            return Err("its texts have no length".into());
        }
        if count.checked_mul(size) == Some(bytes) {
            return Ok(());
        }
        let what = match self.kind {
            _ if self.are_texts() => "texts",
            Kind::Ticks(_) => "times",
            _ => "numbers",
        };
        Err(format!("{bytes} bytes for {count} {what} of {size}"))
    }

    /// The elements of some bytes; what is left over is no element.
    pub(crate) fn decode(self, bytes: &[u8]) -> Content {
        match self.kind {
            Kind::Characters | Kind::Bytes => {
                Content::Texts(bytes.chunks_exact(self.size.max(1)).map(|b| self.text(b)).collect())
            }
            Kind::Ticks(per_second) => {
                let second = |bytes: &[u8; 8]| match i64::from_le_bytes(*bytes) {
                    i64::MIN => f64::NAN, // NumPy's "not a time"
                    ticks => ticks as f64 / per_second,
                };
                Content::Seconds(bytes.as_chunks::<8>().0.iter().map(second).collect())
            }
            _ => Content::Numbers(self.numbers(bytes)),
        }
    }

    fn text(self, bytes: &[u8]) -> String {
        let text: String = match self.kind {
            Kind::Bytes => String::from_utf8_lossy(bytes).into_owned(),
            _ => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|c| char::from_u32(u32::from_le_bytes(*c)).unwrap_or('\u{fffd}'))
                .collect(),
        };
        text.trim_end_matches('\0').to_owned()
    }

    /// The numbers of some bytes; texts and instants are none.
    pub(crate) fn numbers(self, bytes: &[u8]) -> Vec<f64> {
        match self.kind {
            Kind::Byte => bytes.iter().map(|b| f64::from(*b)).collect(),
            Kind::Number(doubles) => doubles(bytes),
            Kind::Characters | Kind::Bytes | Kind::Ticks(_) => Vec::new(),
        }
    }
}

/// The unit of datetime64.
fn unit(name: &str) -> Option<&str> {
    name.strip_prefix("M8[").and_then(|k| k.strip_suffix(']'))
}

fn per_second(unit: &str) -> Result<f64, String> {
    Ok(match unit {
        "D" => 1.0 / 86_400.0,
        "h" => 1.0 / 3_600.0,
        "m" => 1.0 / 60.0,
        "s" => 1.0,
        "ms" => 1e3,
        "us" => 1e6,
        "ns" => 1e9,
        other => return Err(format!("times in units of {other:?}; save them as datetime64[us]")),
    })
}
