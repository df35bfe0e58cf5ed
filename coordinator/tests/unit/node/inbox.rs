use super::*;

/// Takes 0 to 9 in batches of at most `slice`, and returns each batch.
fn batches(most: usize, slice: usize) -> Vec<Vec<u32>> {
    let (outlet, mut inlet) = mpsc::channel(10);
    (0..10).for_each(|number| outlet.try_send(number).unwrap());
    let mut batches = Vec::new();
    while let Ok(first) = inlet.try_recv() {
        let mut batch = Vec::new();
        take_some(first, &mut inlet, most, |number| {
            batch.push(number);
            batch.len() < slice
        });
        batches.push(batch);
    }
    batches
}

#[test]
fn a_batch_that_ends_takes_nothing_that_it_does_not_handle() {
    for (most, slice) in [(4, 99), (99, 4), (4, 4)] {
        let expected = [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]];
        assert_eq!(batches(most, slice), expected);
    }
    assert_eq!(batches(10, 10).len(), 1);
    assert_eq!(batches(1, 1).len(), 10);
}
