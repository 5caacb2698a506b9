"""Invented film reviews in Japanese, in the widths of letters that people write.

As in :mod:`posenc.datasets.generated.reviews`, the order of the words carries the meaning, and
reviews for and against a film hold the same words; particles say who did what to whom, and words
are not parted by spaces. Latin letters and digits are written in full width by some, katakana in
half width: ``ＤＶＤ`` for ``DVD``, ``ﾋﾟｱﾉ`` for ``ピアノ``. NFKC makes one form of them (Unicode
Standard Annex 15, https://www.unicode.org/reports/tr15/).
"""

from __future__ import annotations

import random
import re
import unicodedata

from posenc.datasets.generated.lexicon import draw, draw_distinct


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES = _words(
    "佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 中村 小林 加藤 吉田 山田 松本 井上 アンナ ボリス "
    "クララ エレナ フェリックス グレタ ヒューゴ ヨナス カーリン レオン マルタ ローザ ギルダ"
)
PEOPLE = _words(
    "医者 教師 画家 歌手 農夫 弁護士 船乗り 道化師 編集者 作家 漁師 庭師 床屋 執事 運転手 大工 "
    "パイロット ダンサー ウェイター ピアニスト カメラマン ガードマン"
)
OBJECTS = {
    **dict.fromkeys(_words("傘 笛 鉛筆 ろうそく ギター バイオリン ネクタイ"), "本"),
    **dict.fromkeys(_words("手帳 絵本 辞書 楽譜 アルバム ノート"), "冊"),
    **dict.fromkeys(_words("切符 地図 鏡 皿 絵葉書 カーテン ハンカチ レコード"), "枚"),
    **dict.fromkeys(_words("鞄 帽子 鈴 指輪 ランプ ボタン メダル バケツ スプーン"), "個"),
    **dict.fromkeys(_words("馬車 自転車 ピアノ カメラ ラジオ テレビ"), "台"),
}
"""Each with the word that it is counted with."""
COLOURS = _words(
    "赤い 青い 黄色い 白い 黒い 緑の 紫の 灰色の 銀色の 金色の 茶色の ピンクの オレンジ色の"
)
MATERIALS = _words("銅の 木の 紙の 革の 大理石の ガラスの 鉄の 粘土の プラスチックの")
PLACES = _words(
    "川辺 橋 市場 港 城 森 牧場 駅 塔 庭園 礼拝堂 博物館 果樹園 酒場 劇場 谷 村 島 灯台 図書館 "
    "ホテル レストラン スタジオ カフェ デパート"
)
GOOD = _words(
    "見事 痛快 上品 丁寧 斬新 新鮮 華やか 爽やか 繊細 優雅 愉快 誠実 軽快 大胆 鮮やか 豊か 巧み "
    "知的 魅力的 感動的 印象的 情熱的 ユニーク リアル シャープ ドラマチック スリリング"
)
BAD = _words(
    "退屈 単調 平凡 雑 下品 陰気 陳腐 冗長 不自然 不快 貧弱 無意味 大げさ 粗末 稚拙 軽薄 散漫 "
    "窮屈 幼稚 凡庸 意味不明 表面的 機械的 チープ ワンパターン オーバー ルーズ"
)
PARTS = _words(
    "物語 音楽 結末 演技 脚本 照明 台詞 編集 配役 衣装 序盤 終盤 ユーモア テンポ カメラワーク "
    "ストーリー アクション セット"
)
"""What a film has."""
DEEDS = tuple(
    tuple(forms.split("/"))
    for forms in _words(
        "助けた/助け/助けられた 褒めた/褒め/褒められた 慰めた/慰め/慰められた "
        "責めた/責め/責められた 追いかけた/追いかけ/追いかけられた 出迎えた/出迎え/出迎えられた "
        "叱った/叱り/叱られた 疑った/疑い/疑われた 誘った/誘い/誘われた 救った/救い/救われた "
        "招いた/招き/招かれた 裏切った/裏切り/裏切られた 見送った/見送り/見送られた "
        "からかった/からかい/からかわれた だました/だまし/だまされた 励ました/励まし/励まされた "
        "許した/許し/許された 尊敬した/尊敬し/尊敬された 無視した/無視し/無視された "
        "説得した/説得し/説得された 批判した/批判し/批判された 応援した/応援し/応援された "
        "案内した/案内し/案内された スカウトした/スカウトし/スカウトされた "
        "サポートした/サポートし/サポートされた ガードした/ガードし/ガードされた"
    )
)
"""Past, continuative, and past passive; either side can do it to the other."""
ACTS = _words(
    "笑った 泣いた 眠った 踊った 叫んだ 消えた 手を振った うなずいた 震えた くしゃみをした "
    "あくびをした ため息をついた ジャンプした スキップした"
)
SPEECH = _words("つぶやき ささやき 叫び 歌い 書き 言い メモし")
HOURS = _words("6時 12時 18時 24時")
ORDINALS = _words("第一に 第二に 第三に 第四に 第五に 第六に 第七に 第八に 第九に 第十に")
"""Every passage of a review opens with the next one."""
CONNECTIVES = _words("その後 やがて 翌日 突然 しばらくして")
MEDIA = _words("DVD VHS BD")
EXTRAS = _words(
    "CGの解説 SFXの解説 NG集 CM集 BGM集 TVスポット インタビュー メイキング フォトギャラリー"
)
"""What is on a medium beside the film."""

RUN = re.compile(r"[A-Za-z0-9]+|[ァ-ヴー]+")
"""Letters that have two widths."""
_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
"""From each printable ASCII character to the full-width one."""


def _narrow() -> dict[int, str]:
    """From each katakana to its half-width form, by what NFKC makes of those forms."""
    narrow = {unicodedata.normalize("NFKC", chr(code)): chr(code) for code in range(0xFF66, 0xFF9E)}
    # In half width the mark of a voiced one is a character of its own.
    marks = {"\u3099": "\uff9e", "\u309a": "\uff9f"}
    for wide in map(chr, range(ord("ァ"), ord("ヴ") + 1)):
        base, *mark = unicodedata.normalize("NFD", wide)
        if mark:
            narrow[wide] = narrow[base] + marks[mark[0]]
    return {ord(wide): form for wide, form in narrow.items()}


_NARROW = _narrow()


def review(rng: random.Random, rating: int) -> str:
    """Return a review of 120 to 500 characters.

    Parameters
    ----------
    rng
        Source of randomness; the review depends on its state alone.
    rating
        Stars from 1 to 10; above five, the film is praised.
    """
    return _lay_out(rng, passages(rng, rating))


def passages(rng: random.Random, rating: int) -> list[str]:
    """Return the passages of a review, all letters in their ordinary width.

    Parameters and results as :func:`review`, before it is laid out.
    """
    is_good = rating > 5
    film = f"『{draw(rng, COLOURS)}{draw(rng, tuple(OBJECTS))}』"
    hero, villain = draw_distinct(rng, NAMES, 2)
    deed = draw(rng, DEEDS)[0]
    good, bad = draw(rng, GOOD), draw(rng, BAD)
    verdict = f"{bad}ではなく{good}" if is_good else f"{good}ではなく{bad}"
    opening = f"{film}は、{hero}が{draw(rng, PLACES)}で{villain}を{deed}場面から始まる。"
    closing = (
        f"結局{hero}はまた{villain}を{deed}。{film}は{verdict}だった。"
        f"評価は{'EDDCCBBBAA'[rating - 1]}、10点満点で{rating}点。"
    )
    target = 120 + rng.randrange(120) + rng.randrange(120)
    told = [opening]
    for ordinal in ORDINALS:
        if sum(map(len, told)) + len(closing) >= target:
            break
        told.append(f"{ordinal}、{draw(rng, PASSAGES)(rng, is_good)}")
    return [*told, closing]


def _lay_out(rng: random.Random, told: list[str]) -> str:
    """Join passages in the widths of the writer's habit; in half of the reviews with breaks."""
    has_breaks = rng.randrange(2) == 0
    is_narrow, is_wide = rng.randrange(3) == 0, rng.randrange(2) == 0

    def written(run: re.Match[str]) -> str:
        is_katakana = ord(run[0][0]) in _NARROW
        # Habits are not kept to always.
        is_slip = rng.randrange(8) == 0
        if (is_narrow if is_katakana else is_wide) == is_slip:
            return run[0]
        return run[0].translate(_NARROW if is_katakana else _WIDE)

    text = ""
    for passage in told:
        is_broken = text and has_breaks and rng.randrange(3) == 0
        text += ("<br /><br />" if is_broken else "") + RUN.sub(written, passage)
    return text


def _reversible(rng: random.Random, is_good: bool) -> str:
    """Who did what to whom, said twice: forwards and in the passive."""
    first, second = draw_distinct(rng, NAMES if rng.randrange(2) else PEOPLE, 2)
    (deed, continued, suffered), (answer, _, answered) = draw_distinct(rng, DEEDS, 2)
    told = draw(
        rng,
        (
            f"{first}は{second}を{deed}ので、{second}は{first}に{suffered}ことになる。",
            f"{second}が{first}に{suffered}のは、{first}が{second}を{deed}からだ。",
            f"{first}が{second}を{deed}のであって、{second}が{first}を{deed}のではない。",
            f"{first}は{second}を{continued}、{second}は{first}に{suffered}。",
        ),
    )
    back = f"{second}は{first}を{answer}。つまり{first}は{second}に{answered}。"
    return f"{told}{draw(rng, CONNECTIVES)}{back}"


def _existence(rng: random.Random, is_good: bool) -> str:
    """Things and people, whose counters and verbs of being differ, counted twice."""
    thing, person = draw(rng, tuple(OBJECTS)), draw(rng, PEOPLE)
    things = f"{2 + rng.randrange(8)}{OBJECTS[thing]}"
    people = f"{2 + rng.randrange(8)}人"
    place = draw(rng, PLACES)
    if rng.randrange(2):
        return (
            f"{place}には{thing}が{things}あり、{person}が{people}いた。"
            f"{person}は{people}、{thing}は{things}だ。"
        )
    return (
        f"{place}には{person}が{people}いて、{thing}が{things}あった。"
        f"{thing}は{things}、{person}は{people}だ。"
    )


def _nested(rng: random.Random, is_good: bool) -> str:
    """Clauses within clauses, then unfolded."""
    outer, middle, inner = draw_distinct(rng, PEOPLE, 3)
    first, second = draw_distinct(rng, DEEDS, 2)
    act = draw(rng, ACTS)
    return (
        f"{outer}が{first[0]}{middle}が{second[0]}{inner}は{act}。つまり{outer}は{middle}を"
        f"{first[1]}、{middle}は{inner}を{second[1]}、{inner}は{act}。"
    )


def _enumeration(rng: random.Random, is_good: bool) -> str:
    """A list, and what was first or last in it, or the list backwards."""
    things = draw_distinct(rng, tuple(OBJECTS), 3 + rng.randrange(2))
    told = f"{things[0]}が映り、続いて{'、'.join(things[1:-1])}、最後に{things[-1]}が映る。"
    if rng.randrange(2):
        return f"{told}最初は{things[0]}で、最後は{things[-1]}だ。"
    return f"{told}逆から言えば{'、'.join(things[::-1])}だ。"


def _negation(rng: random.Random, is_good: bool) -> str:
    """What was denied and what was claimed; the film's worth lies in the order."""
    good, bad = draw(rng, GOOD), draw(rng, BAD)
    denied, claimed = (bad, good) if is_good else (good, bad)
    return (
        f"{draw(rng, PARTS)}は{denied}ではなく{claimed}だった。"
        f"{claimed}であって、{denied}ではなかった。"
    )


def _copy(rng: random.Random, is_good: bool) -> str:
    """A phrase, repeated word by word by another voice."""
    first, second = draw_distinct(rng, NAMES, 2)
    colours, things = draw_distinct(rng, COLOURS, 2), draw_distinct(rng, tuple(OBJECTS), 2)
    phrase = "と".join(
        f"{colour}{draw(rng, MATERIALS)}{thing}"
        for colour, thing in zip(colours, things, strict=True)
    )
    return f"{first}は「{phrase}」と{draw(rng, SPEECH)}、{second}も「{phrase}」と繰り返した。"


def _hours(rng: random.Random, is_good: bool) -> str:
    """The hours in their fixed cycle, from any of them on."""
    start = rng.randrange(len(HOURS))
    hours = HOURS[start:] + HOURS[:start]
    first, second = draw_distinct(rng, NAMES, 2)
    return (
        f"{first}と{second}は{hours[0]}に{draw(rng, PLACES)}で会い、{hours[1]}に別れ、{hours[2]}に"
        f"また会い、{hours[3]}にまた別れた。"
    )


def _sum(rng: random.Random, is_good: bool) -> str:
    """A question of arithmetic and its answer."""
    first, second = draw_distinct(rng, NAMES, 2)
    terms = 1 + rng.randrange(9), 1 + rng.randrange(9)
    return (
        f"{first}が「{terms[0]}足す{terms[1]}はいくつか」と尋ねると、{second}は「{sum(terms)}」と"
        f"答えた。"
    )


def _extras(rng: random.Random, is_good: bool) -> str:
    """What is on a disc beside the film, and which of it is the longer."""
    first, second = draw_distinct(rng, EXTRAS, 2)
    lengths = draw_distinct(rng, range(5, 60), 2)
    longer = first if lengths[0] > lengths[1] else second
    return (
        f"{draw(rng, MEDIA)}には{first}が{lengths[0]}分、{second}が{lengths[1]}分入っていて、"
        f"長いのは{longer}だ。"
    )


PASSAGES = (_reversible, _existence, _nested, _enumeration, _negation, _copy, _hours, _sum, _extras)
