//! An agent that is told no category is registered as what its workload is seen to be.

use tempfile::tempdir;

use crate::support::{Coordinator, eventually};

const PATIENT: [&str; 4] = ["--suspect-after", "5s", "--gone-after", "10m"];

#[test]
fn a_category_follows_what_was_seen_and_a_declared_one_does_not() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &PATIENT);
    let inferred = ["--function", "page-rank", "--category", "auto", "--name", "inferred"];
    let declared = ["--function", "page-rank", "--category", "io", "--name", "declared"];
    let (inferred, _declared) = (coordinator.agent_every("5ms", &inferred), coordinator.agent_every("5ms", &declared));
    let member = eventually("the inferred category", || {
        coordinator.member("inferred").filter(|member| member.category == "memory")
    });
    assert!(member.epoch > 1, "it has registered again");
    inferred.logs("the category follows what was seen");
    let declared = eventually("the declared one has joined", || coordinator.member("declared"));
    assert_eq!(declared.category, "io");
}
