import HTTPTypes

/// Finds routes by exact path.
///
/// Hummingbird's router drops empty path segments, answers a wrong method with 404, and cannot list the methods of a path
/// (library note 1). A table of whole paths avoids these problems and costs one look-up.
struct RouteTable: Sendable {
    /// A path with its methods and their routes.
    struct Entry: Sendable {
        let template: String
        fileprivate(set) var routes: [Route] { didSet { methods = Self.methods(routes) } }
        /// The methods, for `Allow`.
        private(set) var methods: String

        fileprivate init(template: String, routes: [Route]) {
            self.template = template
            self.routes = routes
            methods = Self.methods(routes)
        }

        /// Returns the route of a method; a HEAD uses the route of GET.
        func route(_ method: HTTPRequest.Method) -> Route? {
            let wanted = method == .head ? .get : method
            return routes.first { $0.method == wanted || $0.takesAnyMethod }
        }

        private static func methods(_ routes: [Route]) -> String {
            // The relay takes any method, so this list names the usual ones. The configuration decides the methods of each
            // upstream.
            if routes.contains(where: \.takesAnyMethod) { return "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" }
            var names = routes.map(\.method.rawValue)
            if names.contains("GET") { names.append("HEAD") }
            return names.joined(separator: ", ")
        }
    }

    /// A template with parameters, as bytes, because paths are compared by bytes.
    private struct Pattern: Sendable {
        /// The template's segments; nil for a parameter.
        private let segments: [[UInt8]?]
        /// The bytes before the first parameter.
        private let prefix: [UInt8]
        /// Whether the last parameter matches the rest of the path, slashes included.
        private let takesRest: Bool
        var entry: Entry

        init(_ route: Route) {
            segments = route.template.utf8.dropFirst().split(separator: UInt8(ascii: "/")).map { segment in
                segment.first == UInt8(ascii: "{") ? nil : Array(segment)
            }
            prefix = Array(route.template.utf8.prefix { $0 != UInt8(ascii: "{") })
            takesRest = route.traits.contains(.relay)
            entry = Entry(template: route.template, routes: [route])
        }

        /// Returns the ranges of the parameters in a path; nil if the path is a different one.
        func match(_ path: [UInt8]) -> [Range<Int>]? {
            guard path.starts(with: prefix) else { return nil }
            var parameters: [Range<Int>] = []
            var start = 1
            for (index, segment) in segments.enumerated() {
                guard start <= path.count else { return nil }
                let isRest = takesRest && index == segments.count - 1
                let end = isRest ? path.count : path[start...].firstIndex(of: UInt8(ascii: "/")) ?? path.count
                if let segment {
                    guard path[start..<end].elementsEqual(segment) else { return nil }
                } else {
                    guard start < end || takesRest else { return nil }
                    parameters.append(start..<end)
                }
                start = end + 1
            }
            return start == path.count + 1 ? parameters : nil
        }
    }

    private var exact: [Substring: Entry] = [:]
    private var patterns: [Pattern] = []
    /// The entry for the paths of app links, and their patterns.
    private var appLinks: (entry: Entry, paths: [String])?

    init(_ routes: [Route], appLinkPaths: [String] = []) {
        for route in routes {
            if route.traits.contains(.appLinks) {
                appLinks = (Entry(template: route.template, routes: [route]), appLinkPaths)
                continue
            }
            if !route.template.contains("{") {
                exact[route.template[...], default: Entry(template: route.template, routes: [])].routes.append(route)
                continue
            }
            if let index = patterns.firstIndex(where: { $0.entry.template == route.template }) {
                patterns[index].entry.routes.append(route)
                continue
            }
            patterns.append(Pattern(route))
        }
    }

    /// Returns the path's entry and the parts that match its template's braces; nil for an unknown path.
    func find(_ path: Substring) -> (entry: Entry, parameters: [Substring])? {
        if let entry = exact[path] { return (entry, []) }
        let bytes = Array(path.utf8)
        for pattern in patterns {
            guard let parameters = pattern.match(bytes) else { continue }
            return (pattern.entry, parameters.map { Self.part($0, of: path) })
        }
        guard let appLinks, appLinks.paths.contains(where: { PathPattern.covers($0, path) }) else { return nil }
        return (appLinks.entry, [])
    }

    private static func part(_ range: Range<Int>, of path: Substring) -> Substring {
        let start = path.utf8.index(path.startIndex, offsetBy: range.lowerBound)
        return path[start..<path.utf8.index(start, offsetBy: range.count)]
    }
}
