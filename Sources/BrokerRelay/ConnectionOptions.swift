/// The fields that a `Connection` field names: they belong to one hop and go no further (RFC 9110 section 7.6.1).
struct ConnectionOptions {
    private var names: Set<String> = []

    /// Adds the options of one `Connection` (or `Proxy-Connection`) value.
    mutating func add(_ value: String) {
        if value == "keep-alive" || value == "close" { return }
        for option in value.split(separator: ",") {
            let trimmed = option.drop { $0 == " " || $0 == "\t" }
            guard let end = trimmed.lastIndex(where: { $0 != " " && $0 != "\t" }) else { continue }
            names.insert(trimmed[...end].lowercased())
        }
    }

    /// Says whether the field `name`, in lower case, is named.
    func names(_ name: String) -> Bool { !names.isEmpty && names.contains(name) }
}
