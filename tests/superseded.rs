//! Two agents under one name: the newer one takes over.

use tempfile::tempdir;

use crate::support::{Coordinator, eventually};

#[test]
fn the_older_agent_of_a_name_ends_with_an_error() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &["--suspect-after", "5s", "--gone-after", "10m"]);
    let twin = || coordinator.agent(&["--name", "twin", "--function", "html-gen"]);
    let mut older = twin();
    let first = coordinator.await_members(&["twin"], 3).remove("twin").unwrap();

    let mut newer = twin();
    assert_eq!(older.wait().code(), Some(1));
    let log = older.log();
    let errors: Vec<_> = log.lines().filter(|line| line.starts_with("meanfield: ")).collect();
    assert!(matches!(errors[..], [error] if error.contains("superseded")), "{log}");

    let second = eventually("the newer one reports", || {
        coordinator.member("twin").filter(|member| member.epoch > first.epoch && member.sequence >= Some(3))
    });
    assert_eq!((second.id, second.epoch), (first.id, first.epoch + 1));
    assert_eq!(coordinator.mean_field_count(), 1);
    assert!(newer.is_running());
}
