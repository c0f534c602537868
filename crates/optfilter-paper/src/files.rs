//! The files of a run: `grid.csv`, `cells.csv`, `tuning.csv` and the figures.

use crate::error::RunError;
use crate::figure::Picture;
use crate::outcome::{Cell, SystemRows};
use crate::protocol::Protocol;
use crate::store::write_whole;
use optfilter_plot::Theme;
use std::path::Path;

/// First line of `cells.csv`.
pub(crate) const CELLS_HEADER: &str = "table,system,q,r,alpha,dynamics,protocol,method,steps,lr,decay,value,ci,paper_value,paper_ci,verdict\n";

pub(crate) fn save(path: &Path, content: &[u8]) -> Result<(), RunError> {
    let wrap = |source| RunError::Write { path: path.to_path_buf(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(wrap)?;
    }
    write_whole(path, content).map_err(wrap)
}

pub(crate) fn save_figure(out: &Path, picture: &Picture) -> Result<(), RunError> {
    let svg = picture.figure.svg(Theme::Auto);
    let png = picture.figure.png(Theme::Light, 2.0);
    let png =
        png.map_err(|e| RunError::Figure { name: picture.name.into(), reason: e.to_string() })?;
    let folder = out.join("figures");
    save(&folder.join(format!("{}.svg", picture.name)), svg.as_bytes())?;
    save(&folder.join(format!("{}.png", picture.name)), &png)
}

pub(crate) fn tuning_csv(grid: &[SystemRows]) -> String {
    let mut out = String::from(
        "system,q,r,alpha,dynamics,method,steps,lr,decay,q_search,rmse,tuning_rmse,tuning_prediction_error\n",
    );
    for system in grid.iter().filter(|s| s.protocol == Protocol::Specified) {
        let key = system.system.key().join(",");
        for row in &system.rows {
            let c = row.to_columns();
            out.push_str(&format!("{key},{},{},{}\n", c[..6].join(","), c[8], c[9]));
        }
    }
    out
}

pub(crate) fn grid_csv(grid: &[SystemRows]) -> String {
    let mut out = String::from(
        "protocol,system,q,r,alpha,dynamics,method,steps,lr,decay,q_search,rmse,ci,diverged_runs\n",
    );
    for system in grid {
        let key = system.system.key().join(",");
        for row in &system.rows {
            let columns = row.to_columns();
            out.push_str(&format!("{},{key},{}\n", system.protocol.name(), columns[..8].join(",")));
        }
    }
    out
}

pub(crate) fn cells_csv(cells: &[Cell]) -> String {
    let mut out = String::from(CELLS_HEADER);
    for cell in cells {
        let p = &cell.printed;
        let [steps, lr, decay, _] = cell.row.method.parameters();
        let fields = [
            &p.table,
            &p.system,
            &p.q,
            &p.r,
            &p.alpha,
            &p.dynamics,
            cell.protocol.name(),
            &p.method,
            &steps,
            &lr,
            &decay,
            &format!("{:?}", cell.row.summary.rmse),
            &format!("{:?}", cell.row.summary.ci),
            &p.value,
            &p.ci,
            cell.verdict.name(),
        ];
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}
