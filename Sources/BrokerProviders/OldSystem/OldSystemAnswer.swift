import Broker

/// Reads an answer of the old system.
enum OldSystemAnswer {
    /// The largest body of an answer.
    static let maximumBytes = 65_536
    private static let maximumDevice = 64

    /// Returns the decision; throws `retryable` for each answer that lacks one.
    ///
    /// A 404 or 410 is a decision only if its body repeats the question's `id`. Any web server answers 404 for a wrong path.
    static func read(_ answer: ProviderAnswer, id: String, at now: WallTime) throws(ProviderFailure) -> LegacyAnswer {
        let object = answer.body.count <= maximumBytes ? answer.object : nil
        switch answer.status {
        case 404, 410:
            guard object?["id"]?.string == id else { throw failure(answer, "the `id` is missing in it", now) }
            return .refused
        case 200:
            guard answer.body.count <= maximumBytes else { throw failure(answer, "the body is over 64 KiB", now) }
            guard let object else { throw failure(answer, "it is other than a JSON object with unique members", now) }
            var members = Members(object: object)
            let session = members.session()
            if let name = members.faulty { throw failure(answer, "`\(name)` has a wrong type", now) }
            return .session(session)
        default: throw failure(answer, nil, now)
        }
    }

    private static func failure(_ answer: ProviderAnswer, _ fault: String?, _ now: WallTime) -> ProviderFailure {
        .retryable(
            status: answer.status, retryAfter: answer.retryAfter(at: now),
            detail: "the old system: \(answer.summary)" + (fault.map { ", " + $0 } ?? ""))
    }

    /// The members of a session, read with their types.
    ///
    /// A null counts as a missing member. Other members are ignored.
    private struct Members {
        let object: JSONObject
        /// The first member of a wrong type.
        private(set) var faulty: String?

        mutating func session() -> LegacySession {
            LegacySession(
                subject: text("subject", 255, RequestedText.isPrintable),
                refreshToken: text("refresh_token", TokenAnswer.maximumTokenBytes, RequestedText.isVisible)
                    .map { Secret($0) },
                idToken: text("id_token", 16_384, RequestedText.isVisible).map { Secret($0) },
                scope: scope(), createdAt: time("created_at"), expiresAt: time("expires_at"), device: device())
        }

        private enum RequestedText {
            static func isPrintable(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7F }
            static func isVisible(_ byte: UInt8) -> Bool { (0x21...0x7E).contains(byte) }
        }

        private func value(_ name: String) -> JSONValue? {
            guard let value = object[name], !value.isNull else { return nil }
            return value
        }

        private mutating func fault<Value>(_ name: String) -> Value? {
            faulty = faulty ?? name
            return nil
        }

        private mutating func text(_ name: String, _ most: Int, _ allows: (UInt8) -> Bool) -> String? {
            guard let value = value(name) else { return nil }
            guard let text = value.string, (1...most).contains(text.utf8.count), text.utf8.allSatisfy(allows) else {
                return fault(name)
            }
            return text
        }

        /// Reads a scope: words that spaces separate, or a list of words.
        private mutating func scope() -> [String] {
            guard let value = value("scope") else { return [] }
            if let text = value.string { return text.split(separator: " ").map(String.init) }
            let words = value.array?.compactMap(\.string)
            guard let words, words.count == value.array?.count else { return fault("scope") ?? [] }
            return words
        }

        /// Reads a moment: RFC 3339, or whole seconds since 1970.
        private mutating func time(_ name: String) -> WallTime? {
            guard let value = value(name) else { return nil }
            if let seconds = value.integer { return WallTime(seconds: seconds) }
            guard let text = value.string, text.utf8.count > 10, let time = MomentText.parse(text) else {
                return fault(name)
            }
            return time
        }

        private mutating func device() -> String? {
            guard let value = value("device") else { return nil }
            guard let text = value.string else { return fault("device") }
            let plain = text.unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7F }.prefix(maximumDevice)
            return plain.isEmpty ? nil : String(String.UnicodeScalarView(plain))
        }
    }
}
