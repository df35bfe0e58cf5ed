use super::*;

fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

fn sample() -> (Vec<u8>, Recording) {
    let mut recorder = Recorder::default();
    recorder.admitted("demo", 1, [at(5), at(6), at(6), at(7)]);
    let mut bytes = recorder.take();
    recorder.refused("tenant/1", 3, at(9));
    recorder.admitted("demo", 2, [at(10), at(10), at(10), at(10)]);
    bytes.extend(recorder.take());
    (bytes.clone(), Recording::read(&bytes).unwrap())
}

#[test]
fn what_was_recorded_is_read_back() {
    let (_, recording) = sample();
    assert_eq!(recording.keys, ["demo", "tenant/1"]);
    let admitted = [(0, 1, 5, 6, 7), (0, 2, 10, 10, 10)];
    let expect = admitted.map(|(key, cost, before, decided, after)| Admitted {
        key,
        cost,
        before: at(before),
        asked: at(decided),
        decided: at(decided),
        after: at(after),
    });
    assert_eq!(recording.admitted, expect);
    let refused = Refused {
        key: 1,
        cost: 3,
        at: at(9),
    };
    assert_eq!(recording.refused, [refused]);
    assert_eq!(recording.torn, 0);
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_frames() {
    let (bytes, whole) = sample();
    for length in MAGIC.len()..bytes.len() {
        let cut = Recording::read(&bytes[..length]).unwrap();
        assert!(whole.admitted.starts_with(&cut.admitted), "at {length}");
        assert!(whole.refused.starts_with(&cut.refused), "at {length}");
        let frames = cut.keys.len() + cut.admitted.len() + cut.refused.len();
        assert!(frames < 5 && cut.torn < 48, "at {length}");
    }
    let one_short = Recording::read(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(one_short.admitted.len(), 1);
    assert_eq!(one_short.torn, 44);
}

#[test]
fn damage_is_not_read_as_a_record() {
    let (mut bytes, _) = sample();
    assert_eq!(Recording::read(b""), Err(RecordError::NotARecord));
    let first = MAGIC.len();
    bytes[first] = 9;
    assert_eq!(
        Recording::read(&bytes),
        Err(RecordError::Damaged { at: first })
    );
    let mut nameless = MAGIC.to_vec();
    nameless.push(REFUSED);
    nameless.extend([0; 20]);
    assert_eq!(
        Recording::read(&nameless),
        Err(RecordError::Damaged { at: first })
    );
}
