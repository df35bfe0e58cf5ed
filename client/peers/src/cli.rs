//! The command line: selects the table to print.

mod faces;
mod many_keys;
mod one_key;
mod remote;

const USAGE: &str = "\
What a decision costs by the client of this tree and by others, in one run.

  one-key                 admitted and refused, on one thread
  tail                    percentiles of single decisions
  threads N…              N threads on one key (without N: 2, 8 and 16)
  saturated [SECONDS]     10 million a second with a burst of a million, two threads asking for more
  many-keys KEYS PATTERN  by key; PATTERN is uniform or zipf (without them: all four of 10000 and 1000000)
  memory NAME KEYS        what KEYS keys of 20 bytes add to this process: aliquot, governor
  faces [SECONDS]         each face of `aliquot` beside throttlecrab-server and Redis, on one processor, asked from
                          the other; the programs are ALIQUOT and THROTTLECRAB, or those on the PATH
  serve-empty PORT        serves HTTP/1.1 with a constant answer: the least that a face can cost, for `faces`
  remote                  a call of a GCRA script of Redis, and of a gRPC rate limit service
  count NAME TIMES        decides TIMES times and nothing else, for who counts instructions;
  count-refused NAME TIMES  the same, refused
  count-keys NAME KEYS TIMES  the same, each of KEYS keys TIMES times

All but those that count take a minute or less each. Ratios are to governor's of the same round.";

/// Prints the requested table.
pub fn run(args: &[&str]) -> Result<(), String> {
    match *args {
        ["one-key"] => one_key::table(),
        ["tail"] => one_key::tails(),
        ["threads"] => one_key::threads(&[2, 8, 16]),
        ["threads", ref counts @ ..] => {
            let counts = counts.iter().map(|count| number(count));
            one_key::threads(&counts.collect::<Result<Vec<_>, _>>()?);
        }
        ["saturated"] => one_key::saturated(10),
        ["saturated", seconds] => one_key::saturated(number(seconds)?),
        ["many-keys"] => {
            for (keys, pattern) in [
                (10_000, "uniform"),
                (10_000, "zipf"),
                (1_000_000, "uniform"),
                (1_000_000, "zipf"),
            ] {
                many_keys::table(keys, pattern);
            }
        }
        ["many-keys", keys, pattern] => many_keys::table(number(keys)? as usize, pattern),
        ["memory", name, keys] => many_keys::memory(name, number(keys)? as usize)?,
        ["remote"] => remote::table(),
        ["faces"] => faces::table(5)?,
        ["faces", seconds] => faces::table(number(seconds)?)?,
        ["serve-empty", port] => {
            let port = number(port)? as u16;
            crate::empty::serve(port).map_err(|error| error.to_string())?;
        }
        ["count", name, times] => one_key::count(name, number(times)?, one_key::Answer::Admitted)?,
        ["count-refused", name, times] => {
            one_key::count(name, number(times)?, one_key::Answer::Refused)?;
        }
        ["count-keys", name, keys, times] => {
            many_keys::count(name, number(keys)? as usize, number(times)? as usize)?;
        }
        ["help" | "--help" | "-h"] | [] => println!("{USAGE}"),
        _ => return Err(format!("there is no such table\n\n{USAGE}")),
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
