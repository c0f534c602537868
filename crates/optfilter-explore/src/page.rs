//! The page: files that are part of the program, served one by one or written into one file that needs nothing else.

use crate::http::Answer;
use serde_json::Value;

/// The modules of the page, those that others need first.
const MODULES: &[(&str, &str)] = &[
    ("numbers.js", include_str!("../page/numbers.js")),
    ("elements.js", include_str!("../page/elements.js")),
    ("axes.js", include_str!("../page/axes.js")),
    ("server.js", include_str!("../page/server.js")),
    ("settings.js", include_str!("../page/settings.js")),
    ("timeline.js", include_str!("../page/timeline.js")),
    ("scores.js", include_str!("../page/scores.js")),
    ("controls.js", include_str!("../page/controls.js")),
    ("opened-step.js", include_str!("../page/opened-step.js")),
    ("score-map.js", include_str!("../page/score-map.js")),
    ("leader-board.js", include_str!("../page/leader-board.js")),
    ("take-away.js", include_str!("../page/take-away.js")),
    ("model-editor.js", include_str!("../page/model-editor.js")),
    ("main.js", include_str!("../page/main.js")),
];
const HTML: &str = include_str!("../page/page.html");
const CSS: &str = include_str!("../page/page.css");

/// A file of the page.
pub fn file(name: &str) -> Option<Answer> {
    match name {
        "" | "index.html" => Some(Answer::new(200, "text/html; charset=utf-8", HTML)),
        "page.css" => Some(Answer::new(200, "text/css; charset=utf-8", CSS)),
        _ => {
            let (_, text) = MODULES.iter().find(|(known, _)| *known == name)?;
            Some(Answer::new(200, "text/javascript; charset=utf-8", *text))
        }
    }
}

/// The page as one file, with answers that it would have been given; it asks nobody.
pub fn whole(frozen: &Value) -> String {
    let mut script = String::new();
    for (_, text) in MODULES {
        for line in text.lines().filter(|line| !line.starts_with("import ")) {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    // Neither a script nor data may end the element that they stand in.
    let script = script.replace("</", "<\\/");
    let data = frozen.to_string().replace('<', "\\u003c");
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src blob: data:";
    let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    HTML.replace("<link rel=\"stylesheet\" href=\"page.css\">", &format!("{policy}\n<style>\n{CSS}</style>"))
        .replace(
            "<script type=\"module\" src=\"main.js\"></script>",
            &format!(
                "<script type=\"application/json\" id=\"frozen\">{data}</script>\n<script type=\"module\">\n{script}</script>"
            ),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_is_small_and_asks_for_nothing_but_itself() {
        let size: usize = MODULES.iter().map(|m| m.1.len()).sum::<usize>() + HTML.len() + CSS.len();
        assert!(size < 300_000, "{size}");
        let outside = |text: &str| text.replace("http://www.w3.org/", "").contains("http");
        assert!(!MODULES.iter().any(|(_, text)| outside(text)) && !outside(HTML) && !outside(CSS));
    }

    #[test]
    fn one_file_holds_everything() {
        let page = whole(&json!({"note": "</script><b>"}));
        assert!(!page.contains("src=\"main.js\"") && !page.contains("href=\"page.css\""));
        assert!(!page.contains("\nimport ") && !page.contains("\nexport "));
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
