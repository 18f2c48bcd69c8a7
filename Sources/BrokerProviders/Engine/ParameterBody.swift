import Broker
import FoundationEssentials

/// Writes the body of a token call according to the client's settings.
enum ParameterBody {
    /// Returns the body and its media type; the settings `omit` and `rename` refer to the standard names of parameters.
    ///
    /// All parameters of a target are sent, and they override configured parameters of the same name. If a target's parameter
    /// were missing, the token would be for another API.
    static func make(
        _ parameters: [(name: String, value: String)], _ settings: TokenRequestSettings,
        target: [(name: String, value: String)] = []
    ) -> (bytes: [UInt8], type: String) {
        let kept = parameters.filter { !settings.omit.contains($0.name) } + target
        let named = Set(target.map { settings.rename[$0.name] ?? $0.name })
        let own = kept.map { (name: settings.rename[$0.name] ?? $0.name, value: $0.value) }
        let sent = own + settings.parameters.filter { !named.contains($0.name) }
        switch settings.encoding {
        case .form: return (Array(FormPairs.encode(sent).utf8), "application/x-www-form-urlencoded")
        case .json:
            return (json(sent, lists: own.map(\.name)), "application/json")
        }
    }
}

extension ParameterBody {
    /// Writes the parameters as a JSON object.
    ///
    /// If a name occurs more than once in `names`, it becomes one member with a list of values. `names` are the parameters of
    /// the call, without those from the setting `parameters`.
    private static func json(_ pairs: [(name: String, value: String)], lists names: [String]) -> [UInt8] {
        let repeated = Set(names.filter { name in names.count { $0 == name } > 1 })
        var written: Set<String> = []
        var writer = JSONWriter()
        writer.object { writer in
            for pair in pairs {
                guard repeated.contains(pair.name) else {
                    writer.member(pair.name, pair.value)
                    continue
                }
                guard written.insert(pair.name).inserted else { continue }
                writer.name(pair.name)
                writer.array { writer in
                    for other in pairs where other.name == pair.name { writer.string(other.value) }
                }
            }
        }
        return writer.bytes
    }
}
