import Broker
import BrokerVault
import Testing

@Suite("Key ring", .timeLimit(.minutes(2)))
struct KeyRingTests {
    @Test("A faulty key file → refused, and the message names the faulty member (SEC-110)")
    func refusals() {
        func refusal(_ text: String) -> KeyRingFailure? {
            do throws(KeyRingFailure) {
                _ = try KeyRing.parse(Array(text.utf8))
                return nil
            } catch { return error }
        }
        let good = #"{"id":"k1","key":"\#(Fixture.zeroTo31)","created":"\#(Fixture.created)"}"#
        let index = #""index":{"key":"\#(Fixture.indexKey)"}"#
        #expect(refusal("") == .notJSON(reason: "syntax", byte: 0))
        #expect(refusal("[]") == .notJSON(reason: "notAnObject", byte: 0))
        #expect(refusal(#"{"version":1,\#(index),"keys":[]}"#) == .noKeys)
        #expect(refusal(#"{"version":2,\#(index),"keys":[\#(good)]}"#) == .unsupportedVersion)
        #expect(refusal(#"{"version":"1",\#(index),"keys":[\#(good)]}"#) == .unsupportedVersion)
        #expect(refusal(#"{\#(index),"keys":[\#(good)]}"#) == .member("/version"))
        #expect(refusal(#"{"version":1,"keys":[\#(good)]}"#) == .member("/index"))
        #expect(refusal(#"{"version":1,\#(index),"keys":{}}"#) == .member("/keys"))
        #expect(refusal(#"{"version":1,\#(index),"keys":[\#(good)],"extra":1}"#) == .member("/extra"))
        #expect(
            refusal(#"{"version":1,"version":1,\#(index),"keys":[\#(good)]}"#)
                == .notJSON(reason: "duplicateMember", byte: 0))
        #expect(refusal(#"{"version":1,\#(index),"keys":[7]}"#) == .member("/keys/0"))
        #expect(refusal(#"{"version":1,\#(index),"keys":[\#(good),\#(good)]}"#) == .duplicateID("k1"))
        let twin = good.replacing("k1", with: "k2")
        #expect(refusal(#"{"version":1,\#(index),"keys":[\#(good),\#(twin)]}"#) == .sameKeyTwice("k1", "k2"))
        let sameAsIndex = good.replacing(Fixture.zeroTo31, with: Fixture.indexKey)
        #expect(refusal(#"{"version":1,\#(index),"keys":[\#(sameAsIndex)]}"#) == .sameKeyTwice("index", "k1"))
        for badID in ["x1", "k", "k 1", "k/1", "", "k" + String(repeating: "a", count: 32)] {
            let item = good.replacing(#""k1""#, with: "\"\(badID)\"")
            #expect(refusal(#"{"version":1,\#(index),"keys":[\#(item)]}"#) == .member("/keys/0/id"))
        }
        for time in ["2026-11-20", "2026-02-30T00:00:00Z", "2026-11-20T21:00:00+00:00", "2026-13-01T00:00:00Z"] {
            let item = good.replacing(Fixture.created, with: time)
            #expect(refusal(#"{"version":1,\#(index),"keys":[\#(item)]}"#) == .member("/keys/0/created"))
        }
    }

    @Test(
        "A key is too short, too long, padded, in hexadecimal or of equal bytes → refused, and the message hides it (SEC-110)"
    )
    func keysRefused() {
        let short = String(Fixture.zeroTo31.dropLast(2)) + "w"
        let bad: [(key: String, failure: KeyRingFailure)] = [
            (Base64URL.encode([UInt8](1...31)), .wrongLength(place: "k1", bytes: 31)),
            (Base64URL.encode([UInt8](1...33)), .wrongLength(place: "k1", bytes: 33)),
            ("", .wrongLength(place: "k1", bytes: 0)),
            (Fixture.zeroTo31 + "=", .notBase64URL(place: "k1")),
            (String(Fixture.zeroTo31.dropLast()) + "9", .notBase64URL(place: "k1")),
            (short + "+/", .notBase64URL(place: "k1")),
            (String(repeating: "A", count: 43), .weakKey(place: "k1")),
            (String(repeating: "0f", count: 31) + "0", .notBase64URL(place: "k1")),
        ]
        for (key, failure) in bad {
            let error = #expect(throws: KeyRingFailure.self) { try KeyRing.parse(Fixture.file((id: "k1", key: key))) }
            if key.count != 63 { #expect(error == failure, "\(failure)") }
            if key.count > 8 {
                #expect(!"\(String(describing: error)) \(String(reflecting: error))".contains(key.prefix(8)))
            }
        }
    }

    @Test("A generated key ring is written and read again → the same ring; its description and dump → show no key")
    func roundTrip() throws {
        let now = WallTime(milliseconds: 1_795_000_000_123)
        let ring = try KeyRing.generate(now: now, random: SystemRandom.bytes)
        let text = ring.json()
        let again = try KeyRing.parse(text.bytes())
        #expect(again.json().reveal() == text.reveal())
        #expect(again.list == ring.list)
        #expect(ring.list.map(\.seals) == [true])
        #expect(ring.list.first?.created == WallTime(seconds: 1_795_000_000))
        #expect("\(ring) \(String(reflecting: ring))".count < 80)
        var dumped = ""
        dump(ring, to: &dumped)
        for line in text.reveal().split(separator: "\"") where line.count == 43 { #expect(!dumped.contains(line)) }
    }

    @Test("A key ring is rotated → the new key is first and seals; the old key and the index key stay (SEC-49)")
    func rotation() throws {
        let ring = try KeyRing.parse(Fixture.file((id: "k1", key: Fixture.zeroTo31)))
        let rotated = try ring.rotated(now: WallTime(seconds: 1_795_000_000), random: SystemRandom.bytes)
        #expect(rotated.list.count == 2)
        #expect(rotated.list.first?.id != "k1")
        #expect(rotated.list.map(\.seals) == [true, false])
        #expect(rotated.list.last?.id == "k1")
        #expect(rotated.json().reveal().contains(Fixture.indexKey))
    }

    @Test("The random bytes fail or are too few → no key ring is generated")
    func noRandomness() {
        func broken(_ count: Int) throws(VaultFailure) -> [UInt8] { throw .unavailable }
        func short(_ count: Int) throws(VaultFailure) -> [UInt8] { [1, 2, 3] }
        #expect(throws: KeyRingFailure.noRandomness) { try KeyRing.generate(now: WallTime(seconds: 0), random: broken) }
        #expect(throws: KeyRingFailure.noRandomness) { try KeyRing.generate(now: WallTime(seconds: 0), random: short) }
    }

    @Test(
        "A new key may seal only from a later time → until then the old key seals, and another rotation is refused (SEC-49)"
    )
    func waiting() throws {
        let now = WallTime(seconds: 1_795_000_000)
        let ring = try KeyRing.parse(Fixture.file((id: "k1", key: Fixture.zeroTo31)))
        let rotated = try ring.rotated(
            now: now, sealsFrom: now.advanced(by: .seconds(600)), random: SystemRandom.bytes)
        let id = try #require(rotated.list.first?.id)
        let again = try KeyRing.parse(rotated.json().bytes())
        #expect(again.list(at: now) == rotated.list(at: now))
        for (offset, sealing) in [(Int64(-9), "k1"), (0, "k1"), (599, "k1"), (600, id), (99_999, id)] {
            let moment = now.advanced(by: .seconds(offset))
            #expect(again.sealingID(at: moment) == sealing, "\(offset)")
            #expect(again.list(at: moment).map(\.seals) == [sealing == id, sealing != id])
        }
        #expect(again.list(at: now).map(\.waitsUntil) == [now.advanced(by: .seconds(600)), nil])
        #expect(throws: KeyRingFailure.self) { try again.rotated(now: now, random: SystemRandom.bytes) }
        _ = try again.rotated(now: now.advanced(by: .seconds(600)), random: SystemRandom.bytes)

        let vault = try OpenSSLVault(ring: again, at: now)
        let row = try #require(Digest(Array(0..<32)))
        let early = try vault.seal([1, 2], as: .login, row: row)
        #expect(early.keyID == "k1")
        try vault.replace(ring: again, at: now.advanced(by: .seconds(600)))
        let late = try vault.seal([1, 2], as: .login, row: row)
        #expect(late.keyID == id)
        // A process whose clock is before the new key's time can still open a record that the new key sealed.
        let other = try OpenSSLVault(ring: again, at: now)
        #expect(try other.open(late, as: .login, row: row) == [1, 2])
    }

    @Test("The sealing key, a waiting key or an unknown key is to be removed from the ring → refused")
    func removing() throws {
        let now = WallTime(seconds: 1_795_000_000)
        let ring = try KeyRing.parse(Fixture.file((id: "k1", key: Fixture.zeroTo31)))
        #expect(throws: KeyRingFailure.seals("k1")) { try ring.removing("k1", now: now) }
        #expect(throws: KeyRingFailure.unknownID("k2")) { try ring.removing("k2", now: now) }
        let later = now.advanced(by: .seconds(600))
        let rotated = try ring.rotated(now: now, sealsFrom: later, random: SystemRandom.bytes)
        let id = try #require(rotated.list.first?.id)
        #expect(throws: KeyRingFailure.seals("k1")) { try rotated.removing("k1", now: now) }
        #expect(throws: KeyRingFailure.waits(id, until: later.rfc3339)) { try rotated.removing(id, now: now) }
        let left = try rotated.removing("k1", now: later)
        #expect(left.list(at: later).map(\.id) == [id])
        #expect(left.json().reveal().contains(Fixture.indexKey))
    }

    @Test(
        "A key with a malformed `seals_from` → refused",
        arguments: ["\"soon\"", "7", "null", "\"2026-02-30T00:00:00Z\""])
    func badTime(_ value: String) throws {
        let text = String(decoding: Fixture.file((id: "k1", key: Fixture.zeroTo31)), as: UTF8.self)
        let faulty = text.replacing("\"id\"", with: "\"seals_from\":\(value),\"id\"")
        #expect(faulty != text)
        #expect(throws: KeyRingFailure.member("/keys/0/seals_from")) { try KeyRing.parse(Array(faulty.utf8)) }
    }
}
