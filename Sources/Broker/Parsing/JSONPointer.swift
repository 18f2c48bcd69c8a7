/// Makes RFC 6901 JSON pointers.
package enum JSONPointer {
    /// Returns the pointer of a path of member names (`["a/b"]` → `/a~1b`).
    package static func make(_ path: [String]) -> String {
        path.map { name in
            var escaped = "/"
            for character in name {
                switch character {
                case "~": escaped += "~0"
                case "/": escaped += "~1"
                default: escaped.append(character)
                }
            }
            return escaped
        }.joined()
    }
}
