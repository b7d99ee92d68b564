//! Deciding and updating allocate nothing once their buffers have grown.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_learner::{
    ActScratch, Batch, ChaCha8Rng, Config, Learner, Mode, Segment, Step,
    forecast::{History, Network},
    network::Scratch,
};
use rand::SeedableRng;

#[test]
fn a_forecast_allocates_nothing() {
    let network = Network::new(1);
    let (mut history, mut scratch) = (History::default(), Scratch::default());
    (0..3000).for_each(|step| history.push(f64::from(step % 97), 15.0));
    network.quantiles(&history.features(), &mut scratch).unwrap();
    let counted = allocation_counter::measure(|| {
        // One step that does not look for a period, which happens every half an hour.
        history.push(50.0, 15.0);
        network.quantiles(&history.features(), &mut scratch).unwrap();
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[test]
fn the_second_update_allocates_nothing() {
    for config in [Config::paper(), Config::default()] {
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        let mut learner = Learner::new(config.clone(), 1).unwrap();
        let mut scratch = ActScratch::default();
        let mut segment = Segment::new(&config, 50);
        let mut batch = Batch::new(&config, 450);
        let observation = vec![0.1; config.observation];
        let auxiliary = vec![0.2; config.auxiliary];
        let mask = vec![true; config.logits()];

        let mut round = || {
            batch.clear();
            for _ in 0..9 {
                segment.clear();
                for _ in 0..50 {
                    let network = learner.network();
                    let choice = network.act(&observation, Some(&mask), Mode::Sample(rng), &mut scratch).unwrap();
                    // As in serving: always the most likely, with everything legal or not asked.
                    network.act(&observation, None, Mode::Greedy, &mut scratch).unwrap();
                    let value = network.value(&observation, &auxiliary, &mut scratch).unwrap();
                    let reward = f32::from(choice.actions()[0]);
                    segment
                        .push(&Step {
                            observation: &observation,
                            auxiliary: &auxiliary,
                            mask: Some(&mask),
                            choice,
                            reward,
                            value,
                            terminated: false,
                        })
                        .unwrap();
                }
                batch.push_segment(&segment, 0.0).unwrap();
            }
            learner.update(&batch, 0.0).unwrap();
        };
        round();
        let counted = allocation_counter::measure(round);
        assert_eq!(counted.count_total, 0, "{counted:?}");
    }
}
