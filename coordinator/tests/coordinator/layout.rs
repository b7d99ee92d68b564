//! A store of an older layout is brought to this one, and older programs refuse this one.

use std::{fs, path::Path};

use crate::{forecast::network, support::*};

/// The store's hash of a record, computed apart from it: FNV-1a, with an end after each part.
fn hash(key: &[u8], value: &[u8]) -> u64 {
    let end = [256_u64];
    let part = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).chain(end).collect::<Vec<_>>();
    let all = part(key).into_iter().chain(part(value));
    all.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ byte).wrapping_mul(0x0100_0000_01b3))
}

/// Writes every agent as the layouts 1 to 3 did.
fn make_older(dir: &Path, format: &str) {
    // The one before this has the same agents, and no pools.
    let store = sled::open(dir.join("store")).unwrap();
    let agents: Vec<_> = store.scan_prefix("agent/").map(Result::unwrap).collect();
    for (key, value) in agents.into_iter().filter(|_| format != "4") {
        let id = uuid::Uuid::from_slice(&key[6..]).unwrap();
        let (flags, epoch) = (value[0], u64::from_le_bytes(value[1..9].try_into().unwrap()));
        let (pool, name) = value[10..].split_at(value[9].into());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let category = ["cpu", "memory", "io"][usize::from(flags & 3)];
        let record = serde_json::json!({
            "pool": text(pool),
            "name": text(name),
            "category": category,
            "epoch": epoch,
            "member": flags & 4 != 0,
            "paused": flags & 8 != 0,
        });
        store.remove(&key).unwrap();
        store.insert(format!("agent/{id}"), record.to_string().as_bytes()).unwrap();
    }
    store.insert("format", format).unwrap();
    let own = |key: &[u8]| key == b"format" || key == b"summary";
    let records = store.iter().map(Result::unwrap).filter(|(key, _)| !own(key));
    let digest = records.fold(0_u64, |sum, (key, value)| sum.wrapping_add(hash(&key, &value)));
    let mut summary: serde_json::Value = serde_json::from_slice(&store.get("summary").unwrap().unwrap()).unwrap();
    summary["digest"] = digest.into();
    store.insert("summary", summary.to_string().as_bytes()).unwrap();
    store.flush().unwrap();
}

#[test]
fn an_older_store_is_brought_to_this_layout_and_keeps_everything() {
    for older in ["1", "2", "3", "4"] {
        let dir = tempfile::tempdir().unwrap();
        let coordinator = on_disk(dir.path()).unwrap();
        let before = block_on(async {
            for agent in 0..20 {
                let registered = member(&coordinator, &format!("agent-{agent}")).await;
                if agent % 3 == 0 {
                    coordinator.pause(registered.agent).await.unwrap();
                }
            }
            let gone = member(&coordinator, "gone").await;
            coordinator.remove(gone.agent).await.unwrap();
            coordinator.set_forecast(&pool("default"), network(1)).await.unwrap();
            coordinator.agents()
        });
        drop(coordinator);
        make_older(dir.path(), older);

        let coordinator = on_disk(dir.path()).unwrap();
        assert_eq!(coordinator.agents(), before, "from {older}");
        assert!(coordinator.forecast(&pool("default")).is_ok());
        assert_eq!(block_on(member(&coordinator, "gone")).epoch.0, 2, "also those who left");
        drop(coordinator);
        let store = sled::open(dir.path().join("store")).unwrap();
        assert_eq!(store.get("format").unwrap().unwrap(), "5", "which older programs do not read");
        assert!(store.scan_prefix("agent/").all(|record| record.unwrap().0.len() == 22));
        drop(store);
        assert_eq!(on_disk(dir.path()).unwrap().agents().len(), before.len() + 1);
        assert!(!fs::exists(dir.path().join("rehearsal")).unwrap());
    }
}
