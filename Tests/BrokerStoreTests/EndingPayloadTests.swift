import Broker
import Testing

@testable import BrokerStore

@Suite("PostgreSQL: the notices between replicas")
struct EndingPayloadTests {
    @Test(
        "A replica's notices are split into any number of texts → another replica reads them all, and the sender ignores them"
    )
    func roundTrip() {
        for count in [0, 1, 119, 120, 500] {
            let ended = (0..<count).map { index in
                EndedSession(tokenDigest: Rows.digest(), reason: EndReason.allCases[index % EndReason.allCases.count])
            }
            let texts = EndingPayload.encode(ended, origin: "me")
            #expect(texts.allSatisfy { $0.utf8.count < 8000 })
            #expect(texts.flatMap { EndingPayload.decode($0, origin: "you")?.ended ?? [] } == ended)
            #expect(texts.allSatisfy { EndingPayload.decode($0, origin: "me") == nil })
            let sessions = ended.map(\.tokenDigest)
            for (change, kind) in [(EndingPayload.Change.steppedUp, "2 "), (.changed, "3 ")] {
                let others = EndingPayload.encode(change, sessions, origin: "me")
                #expect(others.allSatisfy { $0.utf8.count < 8000 && $0.hasPrefix(kind) })
                let news = others.compactMap { EndingPayload.decode($0, origin: "you") }
                #expect(news.flatMap(\.steppedUp) == (change == .steppedUp ? sessions : []))
                #expect(news.flatMap(\.changed) == (change == .changed ? sessions : []))
                #expect(others.allSatisfy { EndingPayload.decode($0, origin: "me") == nil })
            }
        }
    }

    @Test(
        "A notice with malformed parts → its good parts are read; a notice with an unknown reason → counts as `admin`")
    func hostile() {
        let token = Rows.digest()
        let good = "admin:\(Base64URL.encode(token.bytes))"
        for text in ["", " ", "1", "4 x \(good)", "x", "1x \(good)"] {
            #expect(EndingPayload.decode(text, origin: "o") == nil, "\(text)")
        }
        for text in [
            "1 x", "1 x :", "1 x admin:", "1 x admin:AAAA", "1 x \u{0}", "1 x admin:é", "1 x admin", "2 x",
            "2 x \(good)",
            "2 x AAAA", "3 x", "3 x \(good)", "3 x AAAA",
        ] {
            #expect(EndingPayload.decode(text, origin: "o") == EndingPayload.News(), "\(text)")
        }
        let mixed = EndingPayload.decode("1 x junk \(good) admin:AA \(good)", origin: "o")
        #expect(mixed?.ended == Array(repeating: EndedSession(tokenDigest: token, reason: .admin), count: 2))
        let newer = EndingPayload.decode("1 x beamed_up:\(Base64URL.encode(token.bytes))", origin: "o")
        #expect(newer?.ended == [EndedSession(tokenDigest: token, reason: .admin)])
    }
}
