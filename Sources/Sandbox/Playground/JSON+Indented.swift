extension JSON {
    /// The text of this value, with one line for each member; small objects and arrays stay on one line.
    func indented(_ margin: String = "") -> String {
        let flat = serialized
        if flat.utf8.count + margin.utf8.count <= 60 { return flat }
        let inner = margin + "  "
        switch self {
        case .object(let members) where !members.isEmpty:
            let lines = members.map {
                inner + JSON.string($0.name).serialized + ": " + $0.value.indented(inner)
            }
            return "{\n" + lines.joined(separator: ",\n") + "\n" + margin + "}"
        case .array(let values) where !values.isEmpty:
            return "[\n" + values.map { inner + $0.indented(inner) }.joined(separator: ",\n") + "\n" + margin + "]"
        default: return flat
        }
    }
}
