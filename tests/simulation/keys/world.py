"""A world whose queues have KMS keys: some are disabled at times, and one while queues empty."""

from random import Random
from typing import Final

from data_plane.stored.data_keys import DataKeys
from tests.simulation.clients import Client, drain
from tests.simulation.fifo.plan import FifoPlan
from tests.simulation.keys.master_keys import CLOSED_HOW, FaultyMasterKeys, KeyService
from tests.simulation.ledger import NEVER_US
from tests.simulation.plan import Plan
from tests.simulation.sealed import MASTER_KEYS
from tests.simulation.universe import DRAIN_US, all_of
from tests.simulation.world import Slot, World

REUSE_S: Final = 60
CLOSED_US_MAX: Final = 60_000_000
BETWEEN_US_MAX: Final = 20_000_000
KNOWN_US: Final = 10_000_000
"""By then every front end knows the keys of its queues."""
SENT_UNDER_EACH: Final = 3
GROUPS: Final = 6
LOCKED: Final = "a key serves nobody from now on"
OPEN_AGAIN: Final = "the key serves again"


class KeysWorld(World):
    """`locked` is the key that did not serve when queues were emptied first ("": all did)."""

    def __init__(self, plan: Plan | FifoPlan) -> None:
        self.keys: KeyService
        self.locked = ""
        self.names = [queue.name for queue in plan.queues]
        self.chance = Random(f"{plan.name}/keys")
        super().__init__(plan)
        self._owner = self.scheduler.start(self._change_keys(), self)
        if not plan.sequential:
            self._strikes = self.scheduler.start(self._strike(), self)

    def data_keys(self, slot: Slot) -> DataKeys:
        """All front ends ask the same KMS."""
        if not hasattr(self, "keys"):
            self.keys = KeyService(self.scheduler)
        process, way = slot.process, slot.cells["meta"]
        master_keys = FaultyMasterKeys(self.keys, way)
        return DataKeys(process, process, process, way, master_keys)

    async def _change_keys(self) -> None:
        """Give the queues other keys now and then, or managed ones."""
        owner = Client(self, "owner of keys")
        while True:
            await owner.pause(100_000, BETWEEN_US_MAX)
            name = self.chance.choice(self.names)
            attributes = {
                "KmsMasterKeyId": self.chance.choice((*MASTER_KEYS, *MASTER_KEYS, "")),
                "KmsDataKeyReusePeriodSeconds": str(REUSE_S),
            }
            params = {"QueueUrl": name, "Attributes": attributes}
            await owner.call("SetQueueAttributes", name, params)

    async def _strike(self) -> None:
        while True:
            await self.scheduler.pause(self.chance.randrange(1_000_000, BETWEEN_US_MAX))
            self._close(self.chance.choice(MASTER_KEYS), self.chance.randrange(CLOSED_US_MAX))

    def _close(self, key_id: str, for_us: int) -> None:
        how = self.chance.choice(CLOSED_HOW)
        self.keys.closed[key_id] = (self.scheduler.now_us + for_us, how)
        self.note(f"{key_id} is closed for {for_us} us: {how}")

    async def settled(self) -> None:
        """Whatever the other key has sealed can be had, before this one serves again, too."""
        self._owner.drop()
        if self.plan.sequential:
            return
        self._strikes.drop()
        self.keys.closed.clear()
        if self.chance.random() < 0.4:
            return
        for number in range(SENT_UNDER_EACH):
            for key_id in self.chance.sample((*MASTER_KEYS, ""), 3):
                await self._send_under(key_id, number)
        # What they have sealed or opened just now, front ends open without asking.
        await self.scheduler.pause(2 * REUSE_S * 1_000_000)
        self.locked = self.chance.choice(MASTER_KEYS)
        self._close(self.locked, NEVER_US)
        self.note(LOCKED)
        clients = [(Client(self, f"early-{name}"), name) for name in self.names]
        await all_of(self, [drain(client, name, DRAIN_US) for client, name in clients])
        self.note(OPEN_AGAIN)
        self.keys.closed.clear()

    async def _send_under(self, key_id: str, number: int) -> None:
        """Have each front end send messages under a key, once all know that it is the queues'."""
        owner = Client(self, "owner of keys")
        for name in self.names:
            params = {"QueueUrl": name, "Attributes": {"KmsMasterKeyId": key_id}}
            await owner.call("SetQueueAttributes", name, params)
        await self.scheduler.pause(KNOWN_US)
        for slot in self.slots:
            client = Client(self, f"{slot.name} under {key_id}", only=slot)
            for name in self.names:
                for message in range(self.chance.choice((1, 1, 4))):
                    body = f"{number}.{message}.{slot.name}.{key_id}@{name}#"
                    params = {"QueueUrl": name, "MessageBody": body}
                    if name.endswith(".fifo"):
                        group = f"group{self.chance.randrange(GROUPS)}"
                        params |= {"MessageGroupId": group, "MessageDeduplicationId": body}
                    await client.call("SendMessage", name, params)
