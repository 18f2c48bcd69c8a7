import Broker
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("The request that a proxy asks about", .timeLimit(.minutes(1)))
struct OriginalRequestTests {
    private func target(_ lines: [(String, String)]) throws -> ProofTarget? {
        var fields = HTTPFields()
        for (name, value) in lines {
            fields.append(HTTPField(name: try #require(HTTPField.Name(name)), value: value))
        }
        return try OriginalRequest.target(in: fields) { _ in true }
    }

    private func forwarded(_ path: String) -> [(String, String)] {
        [
            ("X-Forwarded-Method", "GET"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "shop.example.com"),
            ("X-Forwarded-Uri", path),
        ]
    }

    @Test("Two sorts of fields that say the same in other bytes do not say the same: 400")
    func otherBytes() throws {
        // Both are an `é`: as one character, and as a letter with an accent behind it.
        let (one, two) = ("/caf\u{E9}", "/cafe\u{301}")
        #expect(one == two)
        for (url, path) in [(one, two), (two, one), ("/a", "/b")] {
            let problem = problem {
                try target([("X-Original-URL", "https://shop.example.com\(url)")] + forwarded(path))
            }
            #expect(problem?.code == .invalidRequest, "\(url) \(path)")
            #expect(problem?.errors == [FieldFault("X-Original-URL", .conflict)])
        }
        let methods = problem { try target([("X-Original-Method", "POST")] + forwarded("/a")) }
        #expect(methods?.errors == [FieldFault("X-Original-Method", .conflict)])
        let same = try target(
            [("X-Original-Method", "GET"), ("X-Original-URL", "https://shop.example.com/a")] + forwarded("/a"))
        #expect(same?.method == "GET")
    }

    private func problem(_ body: () throws -> ProofTarget?) -> BrokerProblem? {
        do {
            _ = try body()
            return nil
        } catch { return error as? BrokerProblem }
    }
}
