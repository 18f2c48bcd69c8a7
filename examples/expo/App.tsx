// Not compiled here, because the project's tests lack React Native and Expo. Please report the result of a build.
import { fetch } from 'expo/fetch'
import * as SecureStore from 'expo-secure-store'
import * as WebBrowser from 'expo-web-browser'
import { useEffect, useState } from 'react'
import { AppState, Button, Text, View } from 'react-native'
import { Cancelled, Coatcheck, Credentials } from './coatcheck'
import { Shop, starting } from './shop'

const storage = {
  read: async () => JSON.parse((await SecureStore.getItemAsync('coatcheck')) ?? 'null'),
  write: async (kept: Credentials | null) =>
    kept ? await SecureStore.setItemAsync('coatcheck', JSON.stringify(kept)) : await SecureStore.deleteItemAsync('coatcheck'),
}

const browser = {
  open: async (page: string, signal?: AbortSignal) => {
    signal?.addEventListener('abort', () => {
      try { WebBrowser.dismissAuthSession() } catch { /* Only iOS can close the page. */ }
    })
    const result = await WebBrowser.openAuthSessionAsync(page, 'com.example.android:/oauth2redirect')
    if (result.type !== 'success') throw new Cancelled()
    return result.url
  },
}

// React Native's own fetch cannot stream, so the events need Expo's.
const coatcheck = new Coatcheck({
  broker: 'http://127.0.0.1:8080', client: 'android', transport: 'bearer', storage, browser, fetch: fetch as any })

export default function App() {
  const [screen, show] = useState(starting)
  const [shop] = useState(() => new Shop(coatcheck, show))
  const [active, setActive] = useState(true)
  useEffect(() => { shop.start() }, [shop])
  useEffect(() => {
    const listener = AppState.addEventListener('change', state => setActive(state === 'active'))
    return () => listener.remove()
  }, [])
  const follows = active && screen.user !== null
  useEffect(() => {
    if (!follows) return
    const abort = new AbortController()
    shop.follow(abort.signal)
    return () => abort.abort()
  }, [shop, follows])

  return (
    <View style={{ padding: 40, gap: 20 }}>
      {screen.starting ? <Text>…</Text> : screen.user === null ? (
        <>
          {screen.ended && <Text>Your session has ended ({screen.ended}).</Text>}
          <Button title="Sign in" onPress={() => shop.signIn()} />
        </>
      ) : (
        <>
          <Text>Hello, {screen.user}</Text>
          <Button title="Load my orders" onPress={() => shop.loadOrders()} />
          <Text>{screen.orders}</Text>
          <Button title="Sign out" onPress={() => shop.signOut()} />
        </>
      )}
      <Text>{screen.message}</Text>
    </View>
  )
}
