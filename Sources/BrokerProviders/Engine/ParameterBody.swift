import Broker

/// Writes the parameters of a token call as the client's settings say.
enum ParameterBody {
    /// Returns body and media type; omissions and renamings go by the standard names.
    static func make(
        _ parameters: [(name: String, value: String)], _ settings: TokenRequestSettings
    ) -> (bytes: [UInt8], type: String) {
        let sent =
            parameters.filter { !settings.omit.contains($0.name) }
            .map { (name: settings.rename[$0.name] ?? $0.name, value: $0.value) } + settings.parameters
        switch settings.encoding {
        case .form: return (Array(FormPairs.encode(sent).utf8), "application/x-www-form-urlencoded")
        case .json:
            var writer = JSONWriter()
            writer.object { for pair in sent { $0.member(pair.name, pair.value) } }
            return (writer.bytes, "application/json")
        }
    }
}
