"""The live page from Python: the same server, the same numbers, errors where they belong."""

import json
import struct
import urllib.error
import urllib.request

import numpy as np
import pytest

import optfilter

TEXT = 'system = "local-level"'
YS = [1.0, 1.4, None, 0.9, 1.3]


def ask(page, path, body=None):
    origin = page.address.rsplit("/", 2)[0]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(page.address + path, data, {"Origin": origin})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def test_the_page_shows_what_the_filter_gives():
    model = optfilter.Model.from_toml(TEXT)
    with optfilter.explore(model, YS, method="kf", open=False) as page:
        opening = json.loads(ask(page, "api/start"))["opening"]
        assert opening["filter"]["method"] == "kf"
        subject = {key: opening[key] for key in ("model", "name", "table")}
        body = {
            "from": {"page": "p", "lane": "a", "number": 1}, "subject": subject, "filter": opening["filter"],
            "view": {"states": [0], "observations": [0]},
        }
        packed = ask(page, "api/run", body)
    size = struct.unpack("<I", packed[:4])[0]
    head = json.loads(packed[4 : 4 + size])
    numbers = np.frombuffer(packed[4 + size :], "<f8")
    (line,) = [a for a in head["arrays"] if a["what"] == "estimate" and a["kind"] == "line"]
    shown = numbers[line["at"] : line["at"] + line["len"]].reshape(-1, 2)[:, 1]
    result = model.filter(YS, method="kf")
    assert np.array_equal(shown, result.means[:, 0])
    assert head["scores"]["log_likelihood"] == result.log_likelihoods.sum()


def test_a_closed_page_is_gone():
    page = optfilter.explore(open=False)
    address = page.address
    assert b"<!DOCTYPE html>" in ask(page, "")
    assert address in page._repr_html_()
    page.close()
    assert page.address is None
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address)


def test_frames_bring_their_truth():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": [1.0, 2.0, np.nan, 4.0], "level": [1.0, 1.5, 2.5, 3.5]})
    with optfilter.explore(TEXT, frame, open=False) as page:
        opening = json.loads(ask(page, "api/start"))["opening"]
        subject = {key: opening[key] for key in ("model", "name", "table")}
        about = json.loads(ask(page, "api/describe", {"subject": subject}))
    assert about["known"] == [True] and about["rows"] == 4


def test_what_is_wrong_is_said_at_once():
    model = optfilter.Model.from_toml(TEXT)
    with pytest.raises(ValueError, match="ys: has 2 columns"):
        optfilter.explore(model, np.zeros((3, 2)), open=False)
    with pytest.raises(ValueError, match="lr"):
        optfilter.explore(model, YS, method="imap", lr=-1.0, open=False)
    with pytest.raises(ValueError, match="names no time"):
        optfilter.explore(model, YS, ts=range(5), open=False)
    with pytest.raises(TypeError, match="written as text"):
        optfilter.explore(optfilter.models.Growth(), YS, open=False)
    with pytest.raises(ValueError, match="measurements needs one"):
        optfilter.explore(ys=YS, open=False)
