"""What a detector says now, in words that know what is under way: an alarm at the canary is what the canary
is for, and one during the cell's own attack is a hit."""

from __future__ import annotations

from collections.abc import Sequence

from pqbase.documents import Json
from pqlab.live.bands import Band, under_way


def told(row: Json, bands: Sequence[Band], now_s: float) -> Json:
    """{who, text, tone} of one detector's last word. row: host, model, state, attack, degraded; tone: good,
    warn or bad."""
    who = f"{row.get('model') or 'detector'} at the {row.get('host') or 'host'}"
    if row.get("attack") is None:
        return {"who": who, "text": f"no verdict: {row.get('state') or 'not ready'}", "tone": "warn"}
    alarm, degraded = bool(row["attack"]), bool(row.get("degraded"))
    parts = [_attack(alarm, bands, now_s)]
    if degraded:
        impaired = under_way(bands, "impairment", now_s)
        parts.append(
            (f"DEGRADED, as the link is impaired ({impaired.told})", "good")
            if impaired
            else ("DEGRADED", "bad")
        )
    elif not alarm and parts[0][0] == "no attack":
        parts.append(("not degraded", "good"))
    tone = next((tone for tone in ("bad", "warn") if any(part[1] == tone for part in parts)), "good")
    return {"who": who, "text": "; ".join(text for text, _ in parts), "tone": tone}


def _attack(alarm: bool, bands: Sequence[Band], now_s: float) -> tuple[str, str]:
    canary = under_way(bands, "canary", now_s)
    attack = under_way(bands, "attack", now_s)
    if canary is not None and attack is not None and not attack.benign and alarm:
        return f"ATTACK, of the canary or still of the cell's own ({attack.told})", "good"
    if canary is not None:
        if alarm:
            return "sees the canary, a known attack after the measured part", "good"
        if now_s <= canary.to_s:
            return "canary under way, not seen yet", "warn"
    if attack is not None and attack.benign:
        return (
            (f"ATTACK, and what is under way is harmless ({attack.told})", "bad")
            if alarm
            else (f"no attack; {attack.told} under way, which is harmless", "good")
        )
    if attack is not None and alarm:
        return f"ATTACK, and the cell's own is under way or has just ended ({attack.told})", "good"
    if attack is not None and now_s <= attack.to_s:
        return f"no attack seen, and the cell's own is under way ({attack.told})", "warn"
    return ("ATTACK, and none is under way", "bad") if alarm else ("no attack", "good")
