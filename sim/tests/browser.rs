//! Reports as a browser shows them, in the light and the dark scheme. The console must stay empty, every plot
//! must show something, and everything must contrast with the background. The test needs Chromium. If
//! `ALIQUOT_BROWSER` does not name it, the test says so and passes.

#[path = "../../tests/tests/support/skipped.rs"]
mod skipped;

use serde_json::Value;
use skipped::skipped;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Reports the layout of each plot and its contrast with the background.
const PROBE: &str = r#"<script>
const light = text => {
  const part = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = text.match(/[\d.]+/g).map(Number);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const paper = light(getComputedStyle(document.body).backgroundColor);
const contrast = colour => {
  const [high, low] = [light(colour), paper].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
const seen = mark => {
  const box = mark.getBBox();
  const long = mark.getTotalLength ? mark.getTotalLength() > 0 : false;
  return mark.matches('.lane') ? box.width > 0 && box.height > 0 : long;
};
const ink = mark => getComputedStyle(mark)[mark.matches('.lane') ? 'fill' : 'stroke'];
const plots = [...document.querySelectorAll('svg.plot')].map(plot => {
  const marks = [...plot.querySelectorAll('.mark, .lane')].filter(seen);
  return {
    title: plot.getAttribute('aria-label'),
    width: plot.getBoundingClientRect().width,
    marks: marks.length,
    bands: plot.querySelectorAll('.band').length,
    contrast: Math.min(...marks.map(mark => contrast(ink(mark)))),
    text: Math.min(...[...plot.querySelectorAll('text')].map(text => contrast(getComputedStyle(text).fill))),
  };
});
const verdict = document.createElement('pre');
verdict.id = 'verdict';
verdict.textContent = JSON.stringify({
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  paper, plots,
  ink: contrast(getComputedStyle(document.body).color),
  wide: document.documentElement.scrollWidth > innerWidth,
});
document.body.append(verdict);
</script>
</body>"#;

/// The colour schemes, with Chromium's numbers for them.
const SCHEMES: [(&str, u8); 2] = [("dark", 0), ("light", 1)];

fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("ALIQUOT_BROWSER");
    if named.is_none() {
        skipped("ALIQUOT_BROWSER names no Chromium, so no report was looked at");
    }
    named.map(PathBuf::from)
}

/// Returns the DOM of a page after loading, and the lines of its console.
fn look(browser: &Path, page: &Path, scheme: u8) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().expect("a folder can be made");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--enable-logging=stderr",
            "--window-size=1200,900",
            "--dump-dom",
        ])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser runs");
    let printed = String::from_utf8_lossy(&output.stderr);
    let console = printed.lines().filter(|line| line.contains(":CONSOLE:"));
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        console.map(str::to_owned).collect(),
    )
}

/// Returns the report of the probe for a page, and the lines of its console.
fn probed(browser: &Path, html: &str, scheme: u8) -> (Value, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let page = folder.path().join("page.html");
    std::fs::write(&page, html.replace("</body>", PROBE)).expect("it can be written");
    let (dom, console) = look(browser, &page, scheme);
    let verdict = dom.split("<pre id=\"verdict\">").nth(1);
    let verdict = verdict.and_then(|rest| rest.split("</pre>").next());
    let verdict = verdict.unwrap_or_else(|| panic!("the page was not shown: {console:?}"));
    let verdict = verdict
        .replace("&gt;", ">")
        .replace("&lt;", "<")
        .replace("&amp;", "&");
    (serde_json::from_str(&verdict).expect("it is JSON"), console)
}

/// Returns the report of a seed.
fn report(scenario: &str, seed: u64) -> String {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_aliquot-sim"))
        .args(["report", scenario, "--seed", &seed.to_string()])
        .current_dir(folder.path())
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    std::fs::read_to_string(folder.path().join("report.html")).expect("it was written")
}

/// Returns the page of many seeds.
fn seeds(scenario: &str, seeds: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_aliquot-sim"))
        .args(["run", scenario, "--seeds", seeds, "--html", "all.html"])
        .current_dir(folder.path())
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    std::fs::read_to_string(folder.path().join("all.html")).expect("it was written")
}

/// Returns everything that is wrong with a page.
fn troubles(browser: &Path, html: &str, scheme: (&str, u8)) -> Vec<String> {
    let (seen, console) = probed(browser, html, scheme.1);
    let mut troubles = console;
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or(0.0);
    if seen["dark"] != (scheme.0 == "dark")
        || (number(&seen, "paper") < 0.2) != (scheme.0 == "dark")
    {
        troubles.push(format!("the paper is not {}", scheme.0));
    }
    if number(&seen, "ink") < 7.0 {
        troubles.push("the text can hardly be read".into());
    }
    if seen["wide"] == true {
        troubles.push("it is wider than its window".into());
    }
    let plots = seen["plots"].as_array().expect("a list");
    if plots.len() < 4 {
        troubles.push(format!("only {} plots", plots.len()));
    }
    for plot in plots {
        let (title, least) = (&plot["title"], number(plot, "contrast"));
        if number(plot, "marks") < 1.0 || number(plot, "width") < 300.0 {
            troubles.push(format!("nothing is drawn in {title}"));
        }
        if least < 2.5 || number(plot, "text") < 3.0 {
            troubles.push(format!("{title} can hardly be seen: {least:.1}"));
        }
    }
    troubles
}

#[test]
fn a_browser_shows_every_plot_in_light_and_in_dark() {
    let Some(browser) = browser() else { return };
    for (scenario, seed) in [
        ("leader-crash", 0),
        ("clock-strobe", 1),
        ("swarm", 3),
        ("quota", 0),
        ("permits", 0),
    ] {
        let html = report(scenario, seed);
        for scheme in SCHEMES {
            let found = troubles(&browser, &html, scheme);
            assert!(
                found.is_empty(),
                "{scenario} seed {seed}, {}: {found:#?}",
                scheme.0
            );
        }
    }
    for (scenario, range) in [("leader-crash", "0..8"), ("swarm", "0..1")] {
        let html = seeds(scenario, range);
        for scheme in SCHEMES {
            let found = troubles(&browser, &html, scheme);
            assert!(found.is_empty(), "{scenario}, {}: {found:#?}", scheme.0);
        }
    }
    println!("seven reports were looked at in light and in dark");
}

#[test]
fn a_page_that_is_not_as_it_should_be_is_noticed() {
    let Some(browser) = browser() else { return };
    let html = report("calm", 0);
    let check = |html: &str, says: &str| {
        let found = troubles(&browser, html, SCHEMES[1]).join("\n");
        assert!(found.contains(says), "{says:?} was not noticed: {found:?}");
    };
    check(
        &html.replace("</body>", "<script>nothing.here()</script></body>"),
        "nothing is not defined",
    );
    check(
        &html.replace("class=\"mark", "class=\"no"),
        "nothing is drawn",
    );
    check(
        &html
            .replace("light dark", "dark")
            .replace("prefers-color-scheme: dark", "min-width: 1px"),
        "not light",
    );
    check(
        &html.replace("<svg class=\"plot\"", "<svg class=\"other\""),
        "only 0 plots",
    );
}
