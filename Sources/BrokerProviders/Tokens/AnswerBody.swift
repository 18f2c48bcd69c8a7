import Broker

/// Reads an answer's body as the object it means: JSON, or a form as GitHub's and old servers' are.
enum AnswerBody {
    /// Returns the members, or nil when the body is neither; the first byte decides where the media type does not.
    static func object(_ answer: ProviderAnswer) -> JSONObject? {
        let first = answer.body.first { $0 != 0x20 && $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }
        if first == UInt8(ascii: "{") { return answer.object }
        guard ["application/x-www-form-urlencoded", "text/plain"].contains(answer.mediaType),
            answer.body.count <= 65_536, first != UInt8(ascii: "<"),
            let text = String(validating: answer.body, as: UTF8.self), text.utf8.contains(UInt8(ascii: "=")),
            let form = try? FormPairs(parsing: text)
        else { return nil }
        return JSONObject(form.pairs.map { ($0.name, .string($0.value)) })
    }
}
