use super::*;

#[test]
fn the_leader_or_the_busiest_of_the_others_is_killed() {
    let mut cluster = ClusterStatus {
        leader: Some(1),
        nodes: vec![Some(2), Some(9), Some(3)],
        ..ClusterStatus::default()
    };
    assert_eq!(victim(Kill::Leader, &cluster), Some(1));
    assert_eq!(victim(Kill::Follower, &cluster), Some(2));
    cluster.nodes = vec![None, Some(9), None];
    assert_eq!(victim(Kill::Follower, &cluster), None);
    cluster.leader = None;
    assert_eq!(victim(Kill::Leader, &cluster), None);
}
