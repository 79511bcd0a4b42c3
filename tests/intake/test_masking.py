"""Masking: what was taken out of headers is not shown where the same value stands elsewhere."""

from __future__ import annotations

from hmac import digest

from tachograph.formats.effect_log import EffectLog
from tachograph.intake.masking import Credentials
from tachograph.model.effect import HTTP, Effect

KEY = bytes(range(32))


def _log(*values: bytes) -> EffectLog:
    log = EffectLog()
    effect = Effect(HTTP, index=1, path="0", decision=0, parent=0, at_ns=1)
    effect.tags = [("authorization", digest(KEY, b"credential\0" + value, "sha256")[:16]) for value in values]
    log.effects = [effect]
    return log


def test_a_known_credential_is_replaced_by_as_many_asterisks() -> None:
    """With and without the scheme in front of it."""
    masking = Credentials.of(_log(b"Bearer sk-0123456789abcdef"), tag_key=KEY)
    assert masking.masked_text("the key sk-0123456789abcdef, again") == f"the key {'*' * 19}, again"
    assert masking.masked_text("another sk-ffffffffffffffff") == "another sk-ffffffffffffffff"


def test_without_credentials_nothing_is_looked_at() -> None:
    """The same object comes back."""
    text = "plain words only"
    assert Credentials.of(EffectLog(), tag_key=KEY).masked_text(text) is text


def test_a_credential_behind_a_separator_is_found_and_the_rest_of_the_word_stays() -> None:
    """In a query, in a header line, twice in a word."""
    masking = Credentials.of(_log(b"sk-0123456789abcdef"), tag_key=KEY)
    assert masking.masked_text("https://x.test/?key=sk-0123456789abcdef") == f"https://x.test/?key={'*' * 19}"
    assert masking.masked_text("key:sk-0123456789abcdef=ok") == f"key:{'*' * 19}=ok"
    twice = "sk-0123456789abcdef/sk-0123456789abcdef"
    assert masking.masked_text(twice) == f"{'*' * 19}/{'*' * 19}"


def test_a_credential_that_runs_into_other_words_is_found_by_its_shape() -> None:
    """A streamed answer's pieces are joined without a space: `KEYand so on`."""
    log = _log(b"Bearer sk-0123456789abcdef")
    log.effects[0].headers = [(b"authorization", b"Bearer sk-0000000000aaaaaa")]
    masking = Credentials.of(log, tag_key=KEY)
    assert masking.masked_text("is sk-0123456789abcdefand more") == f"is {'*' * 19}and more"
    assert masking.masked_text("xxsk-0123456789abcdef") == f"xx{'*' * 19}"
    assert masking.masked_text("is sk-0123456789fedcbaand more") == "is sk-0123456789fedcbaand more"
