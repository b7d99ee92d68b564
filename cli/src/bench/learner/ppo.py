"""PyTorch's side of `meanfield bench learner`: PPO at SIMPPO's published sizes, written as CleanRL writes it.

Each line on standard input asks for a figure, and each line of the answer is one in seconds of CPU time: `update 20` the
median of 20 updates, `decide 2000` that of 2000 decisions, taken 50 at a time. Importing, making the batch and the
inputs do not count.
"""

import sys
import time

try:
    import warnings

    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch
    from torch import nn
    from torch.distributions.categorical import Categorical
except ImportError:
    sys.exit(3)

OBSERVATION, AUXILIARY, ACTIONS, HIDDEN, STEPS = 7, 12, 7, 64, 50
EPOCHS, MINIBATCH = 5, 5
GROUP = 50
LEARNING_RATE, CLIP, ENTROPY, VALUE = 3e-4, 0.2, 0.01, 0.05


def layer(inputs, outputs, gain=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.constant_(linear.bias, 0.0)
    return linear


def network(inputs, outputs, gain):
    return nn.Sequential(
        layer(inputs, HIDDEN), nn.Tanh(), layer(HIDDEN, HIDDEN), nn.Tanh(), layer(HIDDEN, outputs, gain)
    )


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = network(OBSERVATION, ACTIONS, 0.01)
        self.critic = network(OBSERVATION + AUXILIARY, 1, 1.0)

    def evaluate(self, observations, states, actions):
        policy = Categorical(logits=self.actor(observations))
        return policy.log_prob(actions), policy.entropy(), self.critic(states).view(-1)


def update(agent, optimizer, batch):
    observations, states, actions, log_probs, advantages, returns = batch
    for _ in range(EPOCHS):
        order = torch.randperm(STEPS)
        for start in range(0, STEPS, MINIBATCH):
            some = order[start : start + MINIBATCH]
            log_prob, entropy, value = agent.evaluate(observations[some], states[some], actions[some])
            ratio = (log_prob - log_probs[some]).exp()
            advantage = advantages[some]
            policy_loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            value_loss = 0.5 * ((value - returns[some]) ** 2).mean()
            loss = policy_loss - ENTROPY * entropy.mean() + VALUE * value_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def decide(agent, observation):
    with torch.inference_mode():
        return agent.actor(observation).argmax(1).item()


def median(times, each, work):
    """Seconds of one piece of work, the median of `times` measurements over `each` pieces."""
    seconds = []
    for _ in range(times):
        started = time.process_time()
        for _ in range(each):
            work()
        seconds.append((time.process_time() - started) / each)
    return sorted(seconds)[times // 2]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE, eps=1e-8)
    observations = torch.rand(STEPS, OBSERVATION) * 2 - 1
    states = torch.cat([observations, torch.rand(STEPS, AUXILIARY) * 2 - 1], 1)
    with torch.no_grad():
        policy = Categorical(logits=agent.actor(observations))
        actions = policy.sample()
        log_probs = policy.log_prob(actions)
    batch = observations, states, actions, log_probs, torch.randn(STEPS), torch.randn(STEPS)
    observation = observations[:1]
    for line in sys.stdin:
        what, count = line.split()
        if what == "update":
            seconds = median(int(count), 1, lambda: update(agent, optimizer, batch))
        elif what == "decide":
            seconds = median(int(count) // GROUP, GROUP, lambda: decide(agent, observation))
        else:
            sys.exit(f"unknown figure {what}")
        print(seconds, flush=True)


main()
