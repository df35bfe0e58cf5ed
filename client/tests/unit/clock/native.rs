use super::{PowerOfTwoSlice, counter, roomy};

#[test]
fn every_number_has_a_place() {
    for len in [1, 2, 64] {
        let slice = PowerOfTwoSlice::new((0..len).collect());
        for number in (0..200).chain([usize::MAX - 1, usize::MAX]) {
            assert_eq!(*slice.at(number), number % len);
        }
        assert!(slice.iter().copied().eq(0..len));
    }
}

#[test]
fn its_length_must_be_a_power_of_two() {
    for len in [0, 3, 12] {
        let made =
            std::panic::catch_unwind(|| PowerOfTwoSlice::new((0..len).collect::<Box<[usize]>>()));
        assert!(made.is_err(), "{len}");
    }
}

#[test]
fn a_roomy_vec_has_the_capacity_asked_for() {
    let most = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
    for len in [0, 1, 1_000, most] {
        let mut room = roomy::<u64>(len);
        assert!(room.capacity() >= len);
        room.extend((0..len).map(|at| at as u64));
        assert!(room.iter().enumerate().all(|(at, &word)| at as u64 == word));
    }
}

#[test]
fn the_counter_never_steps_back_on_one_thread() {
    let readings: Vec<_> = (0..1_000).filter_map(|_| counter()).collect();
    assert!(readings.is_sorted());
}
