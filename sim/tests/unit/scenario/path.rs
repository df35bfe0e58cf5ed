use super::*;

#[test]
fn a_setting_is_set_where_its_path_says() {
    let text = "[[clients]]\nrate = \"1/s\"\n[[clients]]\nrate = \"2/s\"\n";
    let with = |path: &str, value: &str| {
        let mut root: Table = text.parse().expect("TOML");
        let path = Path::parse(path)?;
        path.set(&mut root, value)?;
        Ok::<Table, String>(root)
    };
    let rates = |root: &Table| {
        let all = root["clients"].as_array().expect("a list").iter();
        all.map(|of| of["rate"].as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .expect("texts")
    };
    assert_eq!(rates(&with("clients.rate", "9/s").unwrap()), ["9/s", "9/s"]);
    assert_eq!(
        rates(&with("clients[2].rate", "9/s").unwrap()),
        ["1/s", "9/s"]
    );
    let three = with("topology.nodes", "3").unwrap();
    assert_eq!(three["topology"]["nodes"], Value::Integer(3));
    let clock = with("clock.n1.ppm", "100").unwrap();
    assert_eq!(clock["clock"]["n1"]["ppm"], Value::Integer(100));
    let error = |path: &str| with(path, "1").expect_err("it is wrong");
    assert_eq!(
        error("clients[3].rate"),
        "clients[3].rate: the scenario has 2 of [[clients]]"
    );
    assert_eq!(error("fault.at"), "fault.at: the scenario has no [[fault]]");
}

#[test]
fn an_unknown_path_is_reported_with_the_nearest() {
    let near = |path: &str, meant: &str| {
        let error = Path::parse(path).expect_err("there is none");
        let meant = format!("did you mean {meant:?}?");
        assert!(error.contains(&meant), "{error}");
    };
    near("topology.node", "topology.nodes");
    near("topolgy.nodes", "topology.nodes");
    near("nodes", "topology.nodes");
    near("clients[1].cuont", "clients.count");
    near("clock.n1.pmp", "clock.ppm");
    assert!(Path::parse("clients[0].count").is_err());
    assert!(Path::parse("a..b").is_err());
}

#[test]
fn a_comma_in_a_list_does_not_end_a_value() {
    assert_eq!(split("1, 2"), ["1", "2"]);
    assert_eq!(split("[\"a\", \"b\"],c"), ["[\"a\", \"b\"]", "c"]);
    assert_eq!(value_of("[1, 2]").as_array().map(Vec::len), Some(2));
    assert_eq!(value_of("500/s"), Value::String("500/s".into()));
    assert_eq!(value_of("true"), Value::Boolean(true));
}
