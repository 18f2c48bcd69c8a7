// The globals of React Native that the TypeScript client uses, with React Native's own declarations.
declare global {
  function setTimeout(cb: () => void, ms?: number): number;
  function clearTimeout(id: number | null): void;
  function fetch(input: RequestInfo, init?: RequestInit): Promise<Response>;
  interface WindowOrWorkerGlobalScope { fetch(input: RequestInfo, init?: RequestInit): Promise<Response>; }
  interface Blob { readonly size: number; }
  type HeadersInit_ = Headers | string[][] | { [key: string]: string };
  type BodyInit_ = Blob | FormData | string | null;
  interface FormData { append(name: string, value: any): void }
  interface Body { readonly bodyUsed: boolean; arrayBuffer(): Promise<ArrayBuffer>; blob(): Promise<Blob>; json(): Promise<any>; text(): Promise<string>; formData(): Promise<FormData>; }
  interface Headers { append(name: string, value: string): void; delete(name: string): void; forEach(callback: any, thisArg?: any): void; get(name: string): string | null; has(name: string): boolean; set(name: string, value: string): void; }
  var Headers: { prototype: Headers; new (init?: HeadersInit_): Headers };
  interface RequestInit { body?: BodyInit_ | undefined; credentials?: RequestCredentials_ | undefined; headers?: HeadersInit_ | undefined; integrity?: string; keepalive?: boolean; method?: string; mode?: string; referrer?: string; window?: null; signal?: AbortSignal | undefined; }
  interface Request extends Object, Body { readonly url: string }
  type RequestInfo = Request | string;
  type ResponseType = 'basic' | 'cors' | 'default' | 'error' | 'opaque';
  interface Response extends Object, Body { readonly headers: Headers; readonly ok: boolean; readonly status: number; readonly statusText: string; readonly type: ResponseType; readonly url: string; readonly redirected: boolean; clone(): Response; }
  var Response: { prototype: Response; new (body?: BodyInit_, init?: any): Response; error: () => Response; redirect: (url: string, status?: number) => Response };
  type RequestCredentials_ = 'include' | 'omit' | 'same-origin';
  class AbortController { readonly signal: AbortSignal; abort(reason?: any): void; }
  class AbortSignal { readonly aborted: boolean; onabort: null | ((this: AbortSignal, event: any) => any); addEventListener: <K extends 'abort'>(type: K, listener: (this: AbortSignal, event: any) => any, options?: boolean) => void; removeEventListener: <K extends 'abort'>(type: K, listener: (this: AbortSignal, event: any) => any, options?: boolean) => void; }
  class URLSearchParams { constructor(params?: any); append(key: string, value: string): void; get(name: string): never; }
}
export {};
