import Broker

/// Reads an answer's body as a JSON object, or as a URL-encoded form, which GitHub and old servers send.
enum AnswerBody {
    /// Returns the members of a JSON object or a URL-encoded form; nil for another body.
    ///
    /// A body that begins with `{` is read as JSON, whatever its media type. Other bodies are read as a form if their media type
    /// is that of a form or `text/plain`.
    static func object(_ answer: ProviderAnswer) -> JSONObject? {
        let body = answer.text
        let first = body.first { $0 != 0x20 && $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }
        if first == UInt8(ascii: "{") { return try? answer.parsedObject(mendingTexts: true) }
        guard ["application/x-www-form-urlencoded", "text/plain"].contains(answer.mediaType),
            body.count <= 65_536, first != UInt8(ascii: "<"),
            let text = String(validating: body, as: UTF8.self), text.utf8.contains(UInt8(ascii: "=")),
            let form = try? FormPairs(parsing: text)
        else { return nil }
        return JSONObject(form.pairs.map { ($0.name, .string($0.value)) })
    }
}
