/// Makes RFC 6901 JSON pointers.
package enum JSONPointer {
    /// Returns the pointer of a path of member names (`["a/b"]` → `/a~1b`).
    package static func make(_ path: [String]) -> String {
        path.map { name in
            var escaped = "/"
            for scalar in name.unicodeScalars {
                switch scalar {
                case "~": escaped += "~0"
                case "/": escaped += "~1"
                default: escaped.unicodeScalars.append(scalar)
                }
            }
            return escaped
        }.joined()
    }
}
