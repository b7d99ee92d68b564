//! Every version that was ever written is read, byte for byte, and no other bytes are.

use proptest::prelude::*;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// What a version wrote.
fn fixture(version: u8) -> Vec<u8> {
    std::fs::read(format!("{FIXTURES}/chunk-{version}.bin")).unwrap()
}

/// The steps that the fixtures hold.
fn written() -> Vec<Recorded> {
    let state = |level: f64| super::state([1.0, level, -level, 0.25, level / 2.0, 0.1, 0.3]).unwrap();
    let verdicts =
        |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
    let step = |step, from, to, action, reward: f64, said: &[&str]| Recorded {
        episode: 7,
        step,
        state: state(from),
        action,
        reward: reward.try_into().unwrap(),
        next_state: state(to),
        verdicts: verdicts(said),
    };
    let up = Action { cpu: Step::Up, memory: Step::Down, replicas: Step::Stay };
    vec![
        step(3, 0.5, 0.6, Action::HOLD, -1.5, &[]),
        step(4, 0.6, 0.7, up, 0.1, &["rate", "grant"]),
        step(9, 0.7, 0.2, Action { replicas: Step::Up, ..Action::HOLD }, 1e6, &[]),
        step(10, 0.3, 0.2, Action::HOLD, -0.0, &["bounds"]),
    ]
}

/// Version 1 as it was written: everything of every step.
fn encode_full(received: u64, steps: &[Recorded]) -> Vec<u8> {
    let mut bytes = vec![FULL];
    bytes.extend(received.to_le_bytes());
    bytes.extend((steps.len() as u32).to_le_bytes());
    for one in steps {
        bytes.extend(one.step.to_le_bytes());
        put_state(&mut bytes, &one.state);
        bytes.push(action_number(&one.action));
        bytes.extend(one.reward.get().to_le_bytes());
        put_state(&mut bytes, &one.next_state);
        put_verdicts(&mut bytes, &one.verdicts);
    }
    seal(bytes)
}

#[test]
fn every_version_that_was_written_is_read() {
    let chunk = Chunk { received: 1_700_000_000_123, steps: written() };
    if std::env::var_os("MEANFIELD_BLESS").is_some() {
        std::fs::write(format!("{FIXTURES}/chunk-1.bin"), encode_full(chunk.received, &chunk.steps)).unwrap();
        std::fs::write(format!("{FIXTURES}/chunk-2.bin"), encode(chunk.received, &chunk.steps)).unwrap();
    }
    assert_eq!(decode(7, &fixture(1)).unwrap(), chunk);
    assert_eq!(decode(7, &fixture(2)).unwrap(), chunk);
    assert_eq!(encode(chunk.received, &chunk.steps), fixture(2), "what is written has not changed");
    assert!(fixture(2).len() < fixture(1).len());
}

#[test]
fn no_changed_and_no_cut_byte_goes_unnoticed() {
    for good in [fixture(1), fixture(2)] {
        for at in 0..good.len() {
            let mut bad = good.to_vec();
            bad[at] ^= 0x10;
            assert!(decode(7, &bad).is_err(), "{at}");
            assert!(decode(7, &good[..at]).is_err(), "{at}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..400), version in 0..4_u8) {
        let mut bytes = vec![version];
        bytes.extend(content);
        // With a right check, so that what is behind it is reached.
        let _ = (decode(0, &bytes), decode(0, &seal(bytes.clone())), Summary::decode(&seal(bytes)));
    }

    #[test]
    fn steps_read_back_as_written(
        numbers in proptest::collection::vec((0..5_u32, any::<[u8; 14]>(), 0..27_u8, -1e6..1e6_f64, any::<bool>()), 1..40)
    ) {
        let mut at = 0;
        let steps: Vec<_> = numbers
            .into_iter()
            .map(|(gap, levels, action, reward, said)| {
                at += gap + 1;
                let level = |from: usize| std::array::from_fn(|i| f64::from(levels[from + i]) / 255.0);
                Recorded {
                    episode: 1,
                    step: at,
                    state: super::state(level(0)).unwrap(),
                    action: Reader(&[action]).action().unwrap(),
                    reward: reward.try_into().unwrap(),
                    next_state: super::state(level(7)).unwrap(),
                    verdicts: if said { vec!["x-1".parse().unwrap()].try_into().unwrap() } else { Verdicts::default() },
                }
            })
            .collect();
        prop_assert_eq!(decode(1, &encode(5, &steps)).unwrap(), Chunk { received: 5, steps });
    }
}

#[test]
fn a_summary_reads_back_as_written() {
    let summary = Summary {
        pool: "a/b".parse().unwrap(),
        category: Category::Io,
        steps: 9,
        reward: -0.25,
        first: 1,
        last: 12,
        since: 5,
        until: 6,
        bytes: 700,
        segments: vec![3, 4],
    };
    assert_eq!(Summary::decode(&summary.encode()).unwrap(), summary);
}
