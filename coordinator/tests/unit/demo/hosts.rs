use super::*;

fn plan(via: Via) -> FaceHosts {
    FaceHosts::plan(via, 4, &[("demo".into(), 10)]).unwrap()
}

fn names(faces: Vec<(String, SocketAddr)>) -> Vec<String> {
    faces.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn every_service_knows_all_nodes_and_begins_with_another_one() {
    let hosts = plan(Via::Http);
    assert_eq!(names(hosts.of_service(0)), ["node-1", "node-2", "node-3"]);
    assert_eq!(names(hosts.of_service(2)), ["node-3", "node-1", "node-2"]);
    assert_eq!(hosts.of_service(3), hosts.of_service(0));
    assert_eq!(hosts.node_flags(1)[0], "--faces-http-listen");
    assert_eq!(hosts.node_flags(1)[1], *hosts.list()[1].1.to_string());
    assert_eq!(hosts.beside_node(1), None);
}

#[test]
fn an_agent_belongs_to_one_service() {
    let hosts = plan(Via::Agent);
    assert_eq!(names(hosts.list()).len(), 4);
    assert_eq!(names(hosts.of_service(3)), ["agent-4"]);
    assert_eq!(hosts.node_flags(0), Vec::<OsString>::new());
}

#[test]
fn a_rate_limit_service_is_beside_each_node_on_ports_of_its_own() {
    let hosts = plan(Via::Rls);
    assert_eq!(names(hosts.of_service(1)), ["rls-2", "rls-3", "rls-1"]);
    assert_eq!(hosts.beside_node(2), Some("rls-3"));
    let variables = rls_environment(Path::new("/x"), &hosts.hosts[0]);
    let ports = variables.iter().filter(|(name, _)| name.ends_with("PORT"));
    let mut ports: Vec<&OsString> = ports.map(|(_, port)| port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
    assert!(variables.iter().any(|(name, _)| *name == "PROMETHEUS_ADDR"));
}

#[test]
fn the_embedded_client_has_no_faces() {
    let hosts = plan(Via::Client);
    assert!(hosts.list().is_empty() && hosts.of_service(2).is_empty());
}
