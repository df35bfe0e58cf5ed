//! The program itself, run as users run it.

use std::io::Write;
use std::process::Stdio;

/// Output and exit code of the program.
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program with these arguments and this standard input, and without environment variables of
/// `aliquot`.
pub(crate) async fn run(arguments: &[&str], input: &str) -> ProgramOutput {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_aliquot"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
        command.env_remove(name);
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let output = command
        .args(arguments)
        .stdin(Stdio::from(file))
        .output()
        .await
        .unwrap();
    ProgramOutput {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Asserts the exit code, and parts of the output.
#[track_caller]
pub(crate) fn check(statm: &ProgramOutput, code: i32, out: &[&str], err: &[&str]) {
    assert_eq!(statm.code, code, "{}\n{}", statm.out, statm.err);
    for text in out {
        assert!(statm.out.contains(text), "{}\nlacks {text}", statm.out);
    }
    for text in err {
        assert!(statm.err.contains(text), "{}\nlacks {text}", statm.err);
    }
}
