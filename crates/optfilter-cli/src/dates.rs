//! How the times of a table are written, by flags.

use crate::failure::Failure;
use optfilter_model::ModelSpec;
use optfilter_model::table::TimeStyle;

/// Flags of the commands that read a table.
#[derive(clap::Args, Clone)]
pub struct DateFlags {
    /// How times are written, in the manner of strftime, as "%d.%m.%Y %H:%M" [default: the model file's, else ISO 8601]
    #[arg(long, value_name = "FORMAT")]
    date_format: Option<String>,
    /// Times are numbers of this unit since 1970: second, millisecond, microsecond or nanosecond [default: the model file's,
    /// else times are in the model's own unit]
    #[arg(long, value_name = "UNIT", value_parser = TimeStyle::EPOCHS.map(|(name, _)| name))]
    epoch: Option<String>,
}

impl DateFlags {
    /// What these flags say in place of the model file.
    pub fn apply(&self, spec: &mut ModelSpec) -> Result<(), Failure> {
        if let Some(pattern) = &self.date_format {
            TimeStyle::check_pattern(pattern)
                .map_err(|why| Failure::usage(format!("--date-format {pattern:?}: {why}")))?;
            spec.time_style.pattern = Some(pattern.clone());
        }
        if let Some(name) = &self.epoch {
            spec.time_style.epoch =
                TimeStyle::EPOCHS.iter().find(|(n, _)| n == name).map(|(_, unit)| *unit);
        }
        Ok(())
    }
}
