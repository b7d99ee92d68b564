//! Checkpoints come back bit for bit, training goes on as if uninterrupted, and damaged files are refused in words.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::sync::LazyLock;

use meanfield_learner::{
    ActScratch, ActorCritic, Batch, ChaCha8Rng, Config, Error, Learner, Mode, Reward, Segment, Step,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

fn config() -> Config {
    Config { observation: 5, auxiliary: 2, heads: vec![3, 2], hidden: vec![6, 4], embedding: 0, ..Config::default() }
}

fn batch(learner: &Learner, seed: u64) -> Batch {
    let config = learner.network().config();
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let (mut segment, mut batch) = (Segment::new(config, 64), Batch::new(config, 64));
    let mut scratch = ActScratch::default();
    for _ in 0..64 {
        let observation: Vec<f32> = (0..config.observation).map(|_| rng.random_range(-1.0..1.0)).collect();
        let auxiliary = vec![0.5; config.auxiliary];
        let choice = learner.network().act(&observation, None, Mode::Sample(rng), &mut scratch).unwrap();
        let value = learner.network().value(&observation, &auxiliary, &mut scratch).unwrap();
        let reward = rng.random_range(0.0..1.0);
        let (observation, auxiliary) = (&observation, &auxiliary);
        segment.push(&Step { observation, auxiliary, mask: None, choice, reward, value, terminated: false }).unwrap();
    }
    batch.push_segment(&segment, 0.0).unwrap();
    batch
}

fn trained(updates: u64) -> Learner {
    let mut learner = Learner::new(Config { minibatch: 7, ..config() }, 9).unwrap();
    for update in 0..updates {
        let batch = batch(&learner, update);
        learner.update(&batch, 0.1).unwrap();
    }
    learner
}

static SAVED: LazyLock<Vec<u8>> = LazyLock::new(|| trained(2).save().unwrap());

#[test]
fn networks_come_back_bit_for_bit() {
    let learner = trained(2);
    let small = learner.network().save().unwrap();
    for bytes in [&small, &*SAVED] {
        let loaded = ActorCritic::load(bytes).unwrap();
        assert_eq!(&loaded, learner.network());
        assert_eq!(loaded.save().unwrap(), small);
    }
    assert_eq!(Learner::load(&SAVED).unwrap().save().unwrap(), *SAVED, "the same learner gives the same bytes");
    assert!(matches!(Learner::load(&small), Err(Error::NoTrainingState)));
}

#[test]
fn settings_with_many_digits_come_back_exactly() {
    for value in [0.1f64 + 0.2, 1.0 / 3.0, f64::MIN_POSITIVE, 0.300_000_000_000_000_04] {
        let reward = Reward::Balanced { violation: value, cpu: value, memory: value };
        let network = ActorCritic::new(Config { reward, gamma: 1.0 / 3.0, ..config() }, 1).unwrap();
        assert_eq!(ActorCritic::load(&network.save().unwrap()).unwrap(), network);
    }
}

#[test]
fn training_goes_on_as_if_uninterrupted() {
    let through = trained(5);
    let mut resumed = Learner::load(&SAVED).unwrap();
    for update in 2..5 {
        let batch = batch(&resumed, update);
        resumed.update(&batch, 0.1).unwrap();
    }
    assert_eq!(resumed.save().unwrap(), through.save().unwrap());
}

#[test]
fn weights_are_laid_out_as_other_tools_expect() {
    let learner = trained(1);
    let bytes = learner.save().unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let data = file.tensor(name).unwrap().data();
        data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let input = [0.3f32, -0.2, 0.9, 0.1, -0.7, 0.4, -0.6];
    let mut values = input.map(f64::from).to_vec();
    for layer in 0..3 {
        let (weight, bias) = (floats(&format!("critic.{layer}.weight")), floats(&format!("critic.{layer}.bias")));
        let shape = file.tensor(&format!("critic.{layer}.weight")).unwrap().shape().to_vec();
        assert_eq!(shape, [bias.len(), values.len()]);
        values = weight
            .chunks(values.len())
            .zip(&bias)
            .map(|(row, &bias)| {
                let sum: f64 = row.iter().zip(&values).map(|(&w, v)| f64::from(w) * v).sum::<f64>() + f64::from(bias);
                if layer < 2 { sum.tanh() } else { sum }
            })
            .collect();
    }
    let value = learner.network().value(&input[..5], &input[5..], &mut ActScratch::default()).unwrap();
    assert!((f64::from(value) - values[0]).abs() < 1e-5);
}

#[test]
fn every_truncation_is_refused() {
    for length in 0..SAVED.len() {
        let error = Learner::load(&SAVED[..length]).expect_err("a cut-off file").to_string();
        assert!(error.contains("cut off"), "{length} bytes: {error}");
    }
    let longer = [SAVED.as_slice(), &[0]].concat();
    assert!(Learner::load(&longer).is_err());
    assert!(Learner::load(b"PK\x03\x04 this is a zip archive, not a network").is_err());
    assert!(Learner::load(&[0xff; 4096]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damage_anywhere_is_noticed(position in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut bytes = SAVED.clone();
        let position = position.index(bytes.len());
        bytes[position] ^= flip;
        // White space in the header may change into other white space; then nothing was lost.
        if let Ok(learner) = Learner::load(&bytes) {
            prop_assert_eq!(learner.save().unwrap(), SAVED.clone());
        }
    }

    #[test]
    fn damage_in_the_header_is_noticed(position in any::<prop::sample::Index>(), value: u8) {
        let mut bytes = SAVED.clone();
        let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        bytes[position.index(header)] = value;
        if let Ok(learner) = Learner::load(&bytes) {
            prop_assert_eq!(learner.save().unwrap(), SAVED.clone());
        }
    }

    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(Learner::load(&bytes).is_err());
        prop_assert!(ActorCritic::load(&bytes).is_err());
    }
}

/// Rewrites a checkpoint without its checksum, as another tool would write it.
fn rewritten(
    header: impl Fn(&mut serde_json::Value),
    tensor: impl Fn(&str, Dtype, Vec<usize>, Vec<u8>) -> Option<(Dtype, Vec<usize>, Vec<u8>)>,
) -> Vec<u8> {
    let (_, metadata) = SafeTensors::read_metadata(&SAVED).unwrap();
    let mut json: serde_json::Value =
        serde_json::from_str(&metadata.metadata().as_ref().unwrap()["meanfield"]).unwrap();
    json.as_object_mut().unwrap().remove("checksum");
    header(&mut json);
    let file = SafeTensors::deserialize(&SAVED).unwrap();
    let changed: Vec<_> = file
        .tensors()
        .into_iter()
        .filter_map(|(name, view)| {
            let changed = tensor(&name, view.dtype(), view.shape().to_vec(), view.data().to_vec())?;
            Some((name, changed))
        })
        .collect();
    let views = changed
        .iter()
        .map(|(name, (dtype, shape, data))| (name, TensorView::new(*dtype, shape.clone(), data).unwrap()));
    serialize(views, Some(HashMap::from([("meanfield".to_owned(), json.to_string())]))).unwrap()
}

fn same(_: &str, dtype: Dtype, shape: Vec<usize>, data: Vec<u8>) -> Option<(Dtype, Vec<usize>, Vec<u8>)> {
    Some((dtype, shape, data))
}

#[test]
fn a_file_of_another_tool_is_accepted() {
    assert_eq!(Learner::load(&rewritten(|_| {}, same)).unwrap().save().unwrap(), *SAVED);
}

#[test]
fn refusals_say_what_is_wrong() {
    let error = |bytes: &[u8]| Learner::load(bytes).unwrap_err().to_string();

    let missing = rewritten(|_| {}, |name, d, s, b| (name != "critic.1.bias").then_some((d, s, b)));
    assert_eq!(error(&missing), "checkpoint has no tensor `critic.1.bias`");

    let shape = rewritten(|_| {}, |name, d, s, b| Some((d, if name == "actor.0.weight" { vec![5, 6] } else { s }, b)));
    let expected = "checkpoint tensor `actor.0.weight` has shape [5, 6], but the configuration needs [6, 5]";
    assert_eq!(error(&shape), expected);

    let kind = rewritten(|_| {}, |name, d, s, b| Some((if name == "actor.0.bias" { Dtype::I32 } else { d }, s, b)));
    assert!(error(&kind).contains("`actor.0.bias` is not of 32-bit floating-point"), "{}", error(&kind));

    let infinite = rewritten(
        |_| {},
        |name, d, s, mut b| {
            if name == "critic.0.weight" {
                b[..4].copy_from_slice(&f32::NAN.to_le_bytes());
            }
            Some((d, s, b))
        },
    );
    assert!(error(&infinite).contains("`critic.0.weight` holds a value that is not finite"), "{}", error(&infinite));

    let later = rewritten(
        |header| {
            header["format"] = 2.into();
            header["novelty"] = true.into();
        },
        same,
    );
    assert_eq!(error(&later), "checkpoint format 2 is not supported (this version reads 1)");

    let field = rewritten(|header| header["config"]["gama"] = 0.5.into(), same);
    assert!(error(&field).contains("unknown field `gama`"), "{}", error(&field));

    let bound = rewritten(|header| header["config"]["gamma"] = 1.5.into(), same);
    assert!(error(&bound).contains("`gamma` is 1.5"), "{}", error(&bound));

    let huge = rewritten(|header| header["config"]["hidden"] = vec![4096; 2].into(), same);
    assert!(error(&huge).contains("needs [4096, 5]"), "{}", error(&huge));

    let foreign = serialize(Vec::<(String, TensorView<'_>)>::new(), None).unwrap();
    assert!(error(&foreign).contains("without our header"), "{}", error(&foreign));
}
